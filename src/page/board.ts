import { type BoardList, boardLists, type State } from './messages.ts';

interface Entry {
  /** The names of its properties, as a JSON array; one text for all items that have the same ones. */
  readonly names: string;
  /** Their values: a JSON array without its brackets. */
  readonly values: string;
  /** Version of the board at which it came or changed. */
  readonly version: number;
}

/** The state of the lists, without the lists. */
interface Whole {
  readonly json: string;
  readonly version: number;
}

/** Removals that are remembered. A stream that has missed more begins again. */
const maxRemovals = 50_000;

/** Limit of all items, as JSON. */
const maxBytes = 32 * 1024 * 1024;

/**
 * The lists that pages show, as JSON, each item with the version at which it changed: one board serves many streams, and
 * each stream only knows the version that it has sent. A new board has no items.
 */
export class Board {
  /** By list, by node, by key. */
  readonly #lists = new Map<BoardList, Map<string, Map<string, Entry>>>(boardLists.map((list) => [list, new Map()]));
  #removals: { readonly list: BoardList; readonly key: string; readonly version: number }[] = [];
  /** Removals up to this version are forgotten. */
  #forgottenUpTo = 0;
  readonly #names = new Map<string, string>();
  #state: Whole = { json: JSON.stringify(stateWith({})), version: 0 };
  #version = 1;
  #bytes = 0;
  readonly #listeners = new Set<() => void>();

  get version(): number {
    return this.#version;
  }

  /** Bytes of all items. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Calls the listener after each change. @returns ends it */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Replaces the items of one list and one node; equal ones do not count as changed.
   * @param items by keys that no other node has
   * @returns false if there was no room for all of them
   */
  replace(list: BoardList, node: string, items: Iterable<readonly [key: string, item: object]>): boolean {
    const before = this.#of(list).get(node) ?? new Map<string, Entry>();
    const after = new Map<string, Entry>();
    const version = this.#version + 1;
    let isWhole = true;
    for (const [key, item] of items) {
      const old = before.get(key);
      const entry = this.#entry(item, version, old);
      if (old === undefined && this.#bytes + entry.values.length > maxBytes) {
        isWhole = false;
        continue;
      }
      this.#bytes += entry.values.length - (after.get(key)?.values.length ?? old?.values.length ?? 0);
      after.set(key, entry);
    }
    let hasChanged = [...after.values()].some((entry) => entry.version === version);
    for (const [key, { values }] of before) {
      if (after.has(key)) continue;
      this.#bytes -= values.length;
      this.#removals.push({ list, key, version });
      hasChanged = true;
    }
    if (after.size > 0) this.#of(list).set(node, after);
    else this.#of(list).delete(node);
    if (hasChanged) this.#changed(version);
    return isWhole;
  }

  /** Removes everything of a node. */
  drop(node: string): void {
    for (const list of boardLists) this.replace(list, node, []);
  }

  /** Sets what the lists lack. */
  lacks(state: Omit<State, 'kind'>): void {
    const json = JSON.stringify(stateWith(state));
    if (json === this.#state.json) return;
    const version = this.#version + 1;
    this.#state = { json, version };
    this.#changed(version);
  }

  /** Answers if all changes after this version are known. */
  knows(version: number): boolean {
    return version === 0 || version >= this.#forgottenUpTo;
  }

  /** The changes after a version, as JSON texts of messages of about `pieceBytes`; all that there is after version 0. */
  *since(version: number, lists: readonly BoardList[], pieceBytes: number): Generator<string> {
    for (const list of lists) {
      const gone =
        version === 0
          ? []
          : this.#removals
              .filter((removal) => removal.list === list && removal.version > version)
              .map(({ key }) => key);
      // Names are sent once for all items that have the same ones: they are half of the bytes.
      let rows = new Map<string, string[]>();
      let bytes = 0;
      let isFirst = true;
      const message = () => {
        const removed = isFirst ? JSON.stringify(gone) : '[]';
        isFirst = false;
        const put = [...rows].map(([names, items]) => `{"names":${names},"rows":[${items.join(',')}]}`);
        return `{"kind":"items","list":"${list}","put":[${put.join(',')}],"gone":${removed}}`;
      };
      for (const items of this.#of(list).values()) {
        for (const [key, { names, values, version: changedAt }] of items) {
          if (changedAt <= version) continue;
          const row = `[${JSON.stringify(key)}${values === '' ? '' : ','}${values}]`;
          const others = rows.get(names);
          if (others === undefined) rows.set(names, [row]);
          else others.push(row);
          bytes += row.length;
          if (bytes < pieceBytes) continue;
          yield message();
          rows = new Map();
          bytes = 0;
        }
      }
      if (rows.size > 0 || (isFirst && gone.length > 0)) yield message();
    }
    // The names of nodes and their problems need the right to a list of theirs.
    const state = lists.length > 0 ? this.#state.json : JSON.stringify(stateWith({}));
    if (this.#state.version > version || version === 0) yield state;
  }

  /** @returns the old entry if nothing has changed */
  #entry(item: object, version: number, old: Entry | undefined): Entry {
    const properties = Object.entries(item).filter(([, value]) => value !== undefined);
    const values = JSON.stringify(properties.map(([, value]: [string, unknown]) => value)).slice(1, -1);
    const given = JSON.stringify(properties.map(([name]) => name));
    if (old?.values === values && old.names === given) return old;
    const names = this.#names.get(given) ?? given;
    this.#names.set(names, names);
    return { names, values, version };
  }

  #of(list: BoardList): Map<string, Map<string, Entry>> {
    const items = this.#lists.get(list);
    if (items === undefined) throw new Error(`there is no list ${list}`);
    return items;
  }

  #changed(version: number): void {
    this.#version = version;
    if (this.#removals.length > maxRemovals) {
      const kept = this.#removals.slice(-maxRemovals / 2);
      this.#forgottenUpTo = (kept[0]?.version ?? version) + 1;
      this.#removals = kept;
    }
    for (const listener of this.#listeners) listener();
  }
}

function stateWith({ missing = [], problems = [], waiting = 0 }: Partial<Omit<State, 'kind'>>): State {
  return { kind: 'state', waiting, problems, missing };
}
