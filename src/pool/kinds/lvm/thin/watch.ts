import type { ThinPoolStatus } from '../../../../kernel/block/thin-status.ts';
import { explain } from '../../../../kernel/call/explain.ts';
import { larger } from '../../../../volume/size.ts';
import type { PoolLog } from '../../../log.ts';
import type { VolumeGroup } from '../group/volume-group.ts';
import { growthWithin, type Shortage, shortageOf } from './sizes.ts';
import type { ThinPool } from './thin-pool.ts';

/** The kernel alone is asked. A disk of 2 GB/s writes a fifth of 100 GB in 10 s. */
const intervalMs = 2_000;
/** The age of LVM's last report of the group that is too old when space is short: it may be extended at any time. */
const groupAgeMs = 10_000;

export interface ThinWatchOptions {
  readonly log: PoolLog;
  readonly poolName: string;
}

/** The watched figures and operations of a thin pool. */
export interface WatchedPool
  extends Pick<ThinPool, 'extendData' | 'extendMetadata' | 'isOvercommitted' | 'keepActive' | 'status'> {
  readonly group: Pick<VolumeGroup, 'freeBytes' | 'name' | 'refresh' | 'state'>;
}

/** Makes a thin pool larger before it is full, as long as its volume group has free extents. */
export class ThinWatch implements AsyncDisposable {
  readonly #options: ThinWatchOptions;
  readonly #pool: WatchedPool;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> = Promise.resolve();
  #isStopped = false;
  /** The last log line: it is written once. */
  #told = '';

  constructor(pool: WatchedPool, options: ThinWatchOptions) {
    this.#pool = pool;
    this.#options = options;
    this.#wait(0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#looking;
  }

  /** For a disk that does not answer: waits for nothing. */
  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  #wait(delayMs: number): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => {
      this.#looking = this.#look().catch((error) => this.#tell('warn', `it cannot be looked after: ${explain(error)}`));
      void this.#looking.finally(() => this.#wait(intervalMs));
    }, delayMs).unref();
  }

  async #look(): Promise<void> {
    const pool = this.#pool;
    await pool.keepActive();
    let status = await pool.status();
    // Metadata first: without it nothing can be written, not even to data that is there.
    if (await this.#growMetadata(status)) status = await pool.status();
    if (await this.#growData(status)) status = await pool.status();
    const { alarm } = shortageOf(status, pool.isOvercommitted);
    if (alarm === undefined) this.#told = '';
    else this.#tell('error', alarms[alarm]);
  }

  /** LVM keeps a spare of the same size, which grows with it. @returns whether it has grown */
  async #growMetadata(status: ThinPoolStatus): Promise<boolean> {
    const { moreMetadataBytes } = shortageOf(status, this.#pool.isOvercommitted);
    if (moreMetadataBytes === 0n) return false;
    const { group } = this.#pool;
    await group.refresh(groupAgeMs);
    const bytes = growthWithin(moreMetadataBytes, group.freeBytes / 2n, group.state.extentBytes);
    if (bytes === 0n) return false;
    await this.#pool.extendMetadata(bytes);
    this.#log('the metadata of the thin pool has grown', bytes);
    return true;
  }

  /** @returns whether it has grown */
  async #growData(status: ThinPoolStatus): Promise<boolean> {
    const { moreDataBytes } = shortageOf(status, this.#pool.isOvercommitted);
    if (moreDataBytes === 0n) return false;
    const { group } = this.#pool;
    await group.refresh(groupAgeMs);
    // The possible need of metadata is left for it.
    const freeBytes = larger(0n, group.freeBytes - 2n * status.metadata.totalBytes);
    const bytes = growthWithin(moreDataBytes, freeBytes, group.state.extentBytes);
    if (bytes === 0n) return false;
    await this.#pool.extendData(bytes);
    this.#log('the thin pool has grown', bytes);
    return true;
  }

  #log(message: string, bytes: bigint): void {
    const { log, poolName } = this.#options;
    log.info({ pool: poolName, volume_group: this.#pool.group.name, by_bytes: bytes.toString() }, message);
  }

  #tell(level: 'warn' | 'error', what: string): void {
    if (what === this.#told) return;
    this.#told = what;
    const { log, poolName } = this.#options;
    log[level]({ pool: poolName, volume_group: this.#pool.group.name, what }, 'the thin pool is in trouble');
  }
}

const alarms: Readonly<Record<NonNullable<Shortage['alarm']>, string>> = {
  data: 'it is nearly full, and its volume group has nothing left to extend it with',
  metadata: 'its metadata is nearly full, and its volume group has nothing left to extend it with',
  mode: 'it cannot be written to',
};
