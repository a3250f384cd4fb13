import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import type { HoldfastError } from '../../../../volume/errors.ts';
import type { Payload } from './payload.ts';

/** The stored state of a pool's disk, wherever that is written: the pool's id, and the disk's content. */
export interface DiskLabel extends AsyncDisposable {
  /** Known also while the disk fails: attached volumes must still be found. */
  readonly payload: Payload;
  /** The reason why no volume can be made on the disk though it has none; undefined: one can. */
  readonly obstacle: HoldfastError | undefined;
  /** Aborted once another node or program is known to have written it: work on the disk that has begun stops. */
  readonly lost: AbortSignal;
  /** Reads the stored state again, and makes it durable. */
  refresh(): Promise<void>;
  /** The stored state, durably: it is read again if the last write has failed, as either is stored then. */
  settled(): Promise<Payload>;
  /** Durable when it returns. If it throws, either is stored. */
  change(edit: (payload: Payload) => Payload): Promise<void>;
  /** Tries the disk itself. @throws DiskLost, before it writes, if another node or program has written the label */
  probe(queue: DiskQueue): Promise<void>;
  /** Notes on the disk that no driver runs the pool any more. */
  leave(queue: DiskQueue): Promise<void>;
}
