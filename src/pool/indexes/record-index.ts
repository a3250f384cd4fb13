import { DataLoss } from '../../volume/errors.ts';
import type { ReadRecords, Records } from '../backend.ts';
import { SortedIds } from './sorted-ids.ts';

/** None yet, to be added to. */
export function noRecords(): Records {
  return {
    volumes: { records: [], damaged: [] },
    snapshots: { records: [], damaged: [] },
    groups: { records: [], damaged: [] },
  };
}

/** Adds a record, or the reason why it cannot be read. */
export function readInto<Id, Kind>(read: ReadRecords<Id, Kind>, id: Id, parse: () => Kind): void {
  try {
    read.records.push(parse());
  } catch (error) {
    if (!(error instanceof DataLoss)) throw error;
    read.damaged.push({ id, reason: error.message });
  }
}

/**
 * Records of one type in memory. The pool's lock makes this process the only one that changes them. So the records that
 * were read at the start, and put here after each commit, are what lies on the disk.
 */
export class RecordIndex<Id extends string, Kind extends { readonly id: Id }> {
  readonly #type: string;
  readonly #records = new Map<Id, Kind>();
  readonly #ids: SortedIds<Id>;
  readonly #damaged = new Map<Id, string>();
  /** Called with each change before it is visible; undefined: it is gone. */
  onChange: ((id: Id, record: Kind | undefined) => void) | undefined;

  /** @param type for messages: `volume` */
  constructor(type: string, { damaged, records }: ReadRecords<Id, Kind>) {
    this.#type = type;
    for (const record of records) this.#records.set(record.id, record);
    this.#ids = new SortedIds(this.#records.keys());
    for (const { id, reason } of damaged) this.#damaged.set(id, reason);
  }

  /** @throws DataLoss for an object that is there but whose record is damaged: "no such volume" would be a lie */
  get(id: Id): Kind | undefined {
    const reason = this.#damaged.get(id);
    if (reason !== undefined) throw new DataLoss(`${this.#type} ${id}: ${reason}`);
    return this.#records.get(id);
  }

  /** True if it is there, readable or not. */
  has(id: Id): boolean {
    return this.#records.has(id) || this.#damaged.has(id);
  }

  isDamaged(id: Id): boolean {
    return this.#damaged.has(id);
  }

  put(record: Kind): void {
    this.#records.set(record.id, record);
    this.#ids.add(record.id);
    this.onChange?.(record.id, record);
  }

  delete(id: Id): void {
    this.#records.delete(id);
    this.#ids.delete(id);
    this.onChange?.(id, undefined);
  }

  /** Replaces it by what the disk says now. */
  restate(id: Id, { damaged, records }: ReadRecords<Id, Kind>): void {
    this.#damaged.delete(id);
    for (const each of damaged) if (each.id === id) this.#damaged.set(id, each.reason);
    const record = records.find((each) => each.id === id);
    if (record === undefined) this.delete(id);
    else this.put(record);
  }

  get size(): number {
    return this.#records.size;
  }

  get damagedCount(): number {
    return this.#damaged.size;
  }

  all(): IterableIterator<Kind> {
    return this.#records.values();
  }

  /** The records that are wanted, in the order of their ids, the first one behind `after`. */
  list(after: Id | undefined, limit: number | undefined, isWanted: (record: Kind) => boolean): Kind[] {
    const page: Kind[] = [];
    for (const id of this.#ids.after(after)) {
      if (page.length === limit) break;
      const record = this.#records.get(id);
      if (record !== undefined && isWanted(record)) page.push(record);
    }
    return page;
  }
}
