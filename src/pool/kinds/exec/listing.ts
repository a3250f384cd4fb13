import { readdir } from 'node:fs/promises';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { explain } from '../../../kernel/call/explain.ts';
import { SharedRun } from '../../../volume/flow/shared-run.ts';
import { withTimeout } from '../../../volume/flow/with-timeout.ts';
import type { VolumeId } from '../../../volume/id.ts';
import { abnormal } from '../../condition.ts';
import type { PoolLog } from '../../log.ts';
import type { Condition } from '../../pool.ts';
import type { Layout } from '../../records/layout.ts';
import type { StorageCalls } from './storage-calls.ts';

interface ListingParts {
  readonly name: string;
  readonly queue: DiskQueue;
  readonly layout: Layout;
  readonly log: PoolLog;
  readonly storage: Pick<StorageCalls, 'list'>;
}

/** Less than the time after which a disk is called silent. */
const listTimeoutMs = 2_000;
const freshMs = 60_000;
const maxNamed = 10;

/** Compares the volumes and snapshots that a program lists with those of the records. Changes nothing. */
export class ExecListing {
  readonly #parts: ListingParts;
  readonly #reading = new SharedRun(() => this.#read());
  #latest: { readonly ids: ReadonlySet<string>; readonly atMs: number } | undefined;
  /** The program lists nothing. */
  #isUnsupported = false;
  /** After a list that failed. */
  #notBeforeMs = 0;
  readonly #reported = new Set<string>();

  constructor(parts: ListingParts) {
    this.#parts = parts;
  }

  /** Logs the volumes and snapshots that no record names. Waits for nothing. */
  begin(): void {
    void this.#reading.run();
  }

  /** The condition of a volume that the program does not list. A program that is slow or fails says nothing. */
  async conditionOf(id: VolumeId): Promise<Condition | undefined> {
    if (this.#isUnsupported || performance.now() < this.#notBeforeMs) return undefined;
    const latest = this.#latest;
    if (latest?.ids.has(id) && performance.now() - latest.atMs < freshMs) return undefined;
    // One that is missing may have been made since that was read.
    const ids = await withTimeout(listTimeoutMs, this.#reading.run());
    if (ids === 'late' || ids === undefined || ids.has(id)) return undefined;
    return abnormal('The program of this pool does not list this volume: its data may be gone.');
  }

  async #read(): Promise<ReadonlySet<string> | undefined> {
    try {
      const before = await this.#recorded();
      const atMs = performance.now();
      const ids = await this.#parts.storage.list();
      this.#isUnsupported = ids === undefined;
      if (ids === undefined) return undefined;
      this.#latest = { ids, atMs };
      const recorded = new Set([...before, ...(await this.#recorded())]);
      this.#report([...ids].filter((id) => !recorded.has(id)));
      return ids;
    } catch (error) {
      this.#notBeforeMs = performance.now() + freshMs;
      this.#parts.log.warn(
        { pool: this.#parts.name, error: explain(error) },
        'the volumes of a program are not known now',
      );
      return undefined;
    }
  }

  /** The ids of all records, of objects that are made or deleted right now, too. */
  async #recorded(): Promise<string[]> {
    const { layout, queue } = this.#parts;
    const { drafts, snapshots, trash, volumes } = layout;
    const names = await Promise.all([drafts, snapshots, trash, volumes].map((path) => queue.run(() => readdir(path))));
    return names.flat().map((name) => name.split('.', 1)[0] ?? '');
  }

  #report(unknown: readonly string[]): void {
    const fresh = unknown.filter((id) => !this.#reported.has(id));
    for (const id of fresh) this.#reported.add(id);
    if (fresh.length === 0) return;
    this.#parts.log.warn(
      { pool: this.#parts.name, count: fresh.length, ids: fresh.slice(0, maxNamed) },
      'the program has volumes or snapshots that no record of the pool names: they are left as they are',
    );
  }
}
