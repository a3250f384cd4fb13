import { type BoardList, boardLists, type Hello, itemsOf, type State, type StreamMessage } from '../messages.ts';
import { fullness, spaceOf, trashBytes } from './space.ts';
import type { Pool, Tables, Trashed } from './types.ts';

/** connecting: nothing is known yet. lost: the lists were true until `since`. refused: the token is good no longer. */
export type Connection =
  | { readonly is: 'connecting' | 'live' | 'paused' }
  | { readonly is: 'lost'; readonly since: number }
  | { readonly is: 'refused'; readonly message: string };

type Loose = Record<BoardList, Map<string, unknown>>;

const emptyState: State = { kind: 'state', waiting: 1, problems: [], missing: [] };

function emptyLists(): Loose {
  return {
    nodes: new Map(),
    pools: new Map(),
    volumes: new Map(),
    snapshots: new Map(),
    trash: new Map(),
    moves: new Map(),
  };
}

export interface Moment {
  readonly atMs: number;
  /** From 0 to 1. */
  readonly full: number;
}

/** Moments of a pool's history. */
const maxMoments = 360;
const momentMs = 10_000;

/** All that the page knows. Views are drawn after a change, at most once a frame. */
export class Store {
  hello: Hello | undefined;
  state: State = emptyState;
  connection: Connection = { is: 'connecting' };
  /** Changes with each list: views that depend on it are made again then. */
  readonly versions: Record<BoardList | 'state', number> = {
    ...{ nodes: 0, pools: 0, volumes: 0, snapshots: 0, trash: 0, moves: 0, state: 0 },
  };
  /** The server's clock less this one's. */
  clockMs = 0;
  /** The fullness of each pool since the page was opened, by its key. */
  readonly history = new Map<string, Moment[]>();
  #lists = emptyLists();
  /** A new stream's lists, until they are whole: nothing flickers. */
  #coming: Loose | undefined;
  readonly #listeners = new Set<() => void>();
  #isTelling = false;
  readonly #later: (tell: () => void) => void;

  constructor(later: (tell: () => void) => void) {
    this.#later = later;
  }

  get tables(): Tables {
    // The server has checked each item.
    return this.#lists as unknown as Tables;
  }

  now(): number {
    return Date.now() + this.clockMs;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  is(connection: Connection): void {
    if (connection.is === 'lost' && this.connection.is === 'lost') return;
    this.connection = connection;
    this.versions.state++;
    this.#tell();
  }

  receive(message: StreamMessage): void {
    switch (message.kind) {
      case 'hello':
        this.hello = message;
        this.clockMs = Date.parse(message.now) - Date.now();
        this.#coming = emptyLists();
        this.versions.state++;
        break;
      case 'items': {
        const lists = this.#coming ?? this.#lists;
        const items = lists[message.list];
        for (const key of message.gone) items.delete(key);
        for (const [key, item] of itemsOf(message)) items.set(key, item);
        if (this.#coming === undefined) this.versions[message.list]++;
        break;
      }
      case 'state':
        this.#whole();
        this.state = message;
        this.versions.state++;
        this.connection = { is: 'live' };
        break;
      case 'refused':
        this.is({ is: 'refused', message: message.message });
        return;
    }
    if (this.#coming !== undefined) return;
    this.#remember();
    this.#tell();
  }

  #whole(): void {
    if (this.#coming === undefined) return;
    this.#lists = this.#coming;
    this.#coming = undefined;
    for (const list of boardLists) this.versions[list]++;
  }

  #remember(): void {
    const atMs = this.now();
    const trashed = trashBytes(this.#lists.trash.values() as Iterable<Trashed>);
    for (const [key, pool] of this.#lists.pools as Map<string, Pool>) {
      const moments = this.history.get(key) ?? [];
      const last = moments.at(-1);
      if (last !== undefined && atMs - last.atMs < momentMs) continue;
      const space = spaceOf(pool, trashed.get(key) ?? 0);
      if (space === undefined) continue;
      moments.push({ atMs, full: fullness(space) });
      if (moments.length > maxMoments) moments.shift();
      this.history.set(key, moments);
    }
  }

  #tell(): void {
    if (this.#isTelling) return;
    this.#isTelling = true;
    this.#later(() => {
      this.#isTelling = false;
      for (const listener of this.#listeners) listener();
    });
  }
}
