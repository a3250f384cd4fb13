/** The messages of a server to the page, over its stream. The page imports this too: nothing of Node is used here. */

/** The lists that the stream keeps current. */
export const boardLists = ['nodes', 'pools', 'volumes', 'snapshots', 'trash', 'moves'] as const;
export type BoardList = (typeof boardLists)[number];

/** Further lists, which the page asks for when their view is opened. */
export const askedLists = ['disks', 'who'] as const;
export type AskedList = (typeof askedLists)[number];

/** The changes that the page can ask for. */
export const changeNames = ['restore', 'purge', 'cancel', 'forget'] as const;
export type ChangeName = (typeof changeNames)[number];

export interface Hello {
  readonly kind: 'hello';
  /** fleet: all nodes, by the controller. node: one node, by `holdfast ui`. */
  readonly scope: 'fleet' | 'node';
  readonly driver: string;
  readonly version: string;
  /** The server's clock, in RFC 3339: ages are counted from it. */
  readonly now: string;
  /** Lists that this viewer may look at. */
  readonly lists: readonly (BoardList | AskedList)[];
  /** Changes that this viewer may make. */
  readonly may: readonly ChangeName[];
  /** End of the token that the page has, in RFC 3339. */
  readonly until?: string | undefined;
}

export type Row = readonly [key: string, ...values: unknown[]];

export interface Items {
  readonly kind: 'items';
  readonly list: BoardList;
  /** New and changed items. Those whose properties have the same names are together; a row has the item's key and their values. */
  readonly put: readonly { readonly names: readonly string[]; readonly rows: readonly Row[] }[];
  readonly gone: readonly string[];
}

/** The items of a message, each with its key. */
export function* itemsOf({ put }: Items): Generator<readonly [key: string, item: Readonly<Record<string, unknown>>]> {
  for (const { names, rows } of put) {
    for (const row of rows) {
      // Without the copies that Object.fromEntries needs: they take half of the time of ten thousand rows.
      const item: Record<string, unknown> = {};
      for (const [at, name] of names.entries()) item[name] = row[at + 1];
      yield [row[0], item];
    }
  }
}

/** The gaps of the lists, and their reasons. */
export interface State {
  readonly kind: 'state';
  /** Nodes that have not answered yet. */
  readonly waiting: number;
  readonly problems: readonly { readonly node: string; readonly message: string }[];
  readonly missing: readonly {
    readonly node: string;
    readonly reason: string;
    readonly since?: string | undefined;
    readonly message: string;
  }[];
}

/** The stream ends: the page need not ask again with this token. */
export interface Refused {
  readonly kind: 'refused';
  readonly message: string;
}

export type StreamMessage = Hello | Items | State | Refused;
