import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import type { HoldfastError } from '../../../volume/errors.ts';
import type { Payload } from './label/payload.ts';

/** What is known of a pool's disk, wherever that is written: which pool it is, and what the disk has in it. */
export interface DiskLabel extends AsyncDisposable {
  /** Told also while the disk fails: what was attached must still be found. */
  readonly payload: Payload;
  /** Why no volume can be made on the disk though it has none; undefined: one can. */
  readonly obstacle: HoldfastError | undefined;
  /** Aborted once another node or program is known to have written it: work on the disk that has begun stops. */
  readonly lost: AbortSignal;
  /** What is stored, not what memory has of it, and durably: after a write that failed they differ. */
  refresh(): Promise<void>;
  /** Durable when it returns. If it throws, either is stored. */
  change(edit: (payload: Payload) => Payload): Promise<void>;
  /** Tries the disk itself. @throws DiskLost, before it writes, if another node or program has written the label */
  probe(queue: DiskQueue): Promise<void>;
  /** Notes on the disk that no driver runs the pool any more. */
  leave(queue: DiskQueue): Promise<void>;
}
