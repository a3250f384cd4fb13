import { DataLoss } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { Damaged, ReadRecords } from '../backend.ts';

/**
 * The records in memory. The pool's lock makes this process the only one that changes them, so what was read at the
 * start and put here after each commit is what lies on the disk.
 */
export class RecordIndex {
  readonly #records = new Map<VolumeId, VolumeRecord>();
  readonly #damaged = new Map<VolumeId, string>();
  /** Hears of each change before anybody else can see it; undefined: it is gone. */
  onChange: ((id: VolumeId, record: VolumeRecord | undefined) => void) | undefined;

  constructor(records: readonly VolumeRecord[], damaged: readonly Damaged<VolumeId>[]) {
    for (const record of records) this.#records.set(record.id, record);
    for (const { id, reason } of damaged) this.#damaged.set(id, reason);
  }

  /** @throws DataLoss for a volume that is there but whose record is damaged: "no such volume" would be a lie */
  get(id: VolumeId): VolumeRecord | undefined {
    const reason = this.#damaged.get(id);
    if (reason !== undefined) throw new DataLoss(`volume ${id}: ${reason}`);
    return this.#records.get(id);
  }

  /** Readable or not. */
  has(id: VolumeId): boolean {
    return this.#records.has(id) || this.#damaged.has(id);
  }

  put(record: VolumeRecord): void {
    this.#records.set(record.id, record);
    this.onChange?.(record.id, record);
  }

  delete(id: VolumeId): void {
    this.#records.delete(id);
    this.onChange?.(id, undefined);
  }

  /** What the disk says now. */
  restate(id: VolumeId, { records, damaged }: ReadRecords<VolumeId, VolumeRecord>): void {
    this.#damaged.delete(id);
    for (const { reason } of damaged) this.#damaged.set(id, reason);
    const [record] = records;
    if (record === undefined) this.delete(id);
    else this.put(record);
  }

  get size(): number {
    return this.#records.size;
  }

  get damagedCount(): number {
    return this.#damaged.size;
  }

  all(): IterableIterator<VolumeRecord> {
    return this.#records.values();
  }

  list(after: VolumeId | undefined, limit: number | undefined): VolumeRecord[] {
    const records = Array.from(this.#records.values()).filter(
      ({ ephemeral, id }) => ephemeral === undefined && (after === undefined || id > after),
    );
    return records.sort((a, b) => (a.id < b.id ? -1 : 1)).slice(0, limit);
  }
}
