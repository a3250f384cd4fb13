import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import type { FilesystemType } from '../../volume/filesystem.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { Attached, Pool, Seen, SeenVolume, Traits } from '../pool.ts';
import type { PoolQuarantined } from '../quarantine.ts';

/**
 * The rest of a pool whose disk is sick: its records are in memory, and the kernel alone shows which volumes are attached, so
 * that they can be unmounted. All else is refused with the reason.
 */
export class SickPool implements Pool {
  readonly name: string;
  readonly kind: string;
  readonly traits: Traits;
  readonly cluster: Pool['cluster'];
  readonly defaultFilesystem: FilesystemType;
  readonly trimming = 'off';
  /** Closed; work that must be done anyway goes through `rescue`. */
  readonly queue: DiskQueue;
  readonly rescue: Pool['rescue'];
  readonly find: Pool['find'];
  readonly list: Pool['list'];
  readonly findSnapshot: Pool['findSnapshot'];
  readonly listSnapshots: Pool['listSnapshots'];
  readonly findGroup: Pool['findGroup'];
  readonly #pool: Pool;
  readonly #error: PoolQuarantined;
  readonly #refuse = (): Promise<never> => Promise.reject(this.#error);

  /** @param pool as it was; its queue is closed */
  constructor(pool: Pool, error: PoolQuarantined) {
    this.#pool = pool;
    this.#error = error;
    const { cluster, defaultFilesystem, kind, name, queue, rescue, traits } = pool;
    this.name = name;
    this.kind = kind;
    this.traits = traits;
    this.cluster = cluster;
    this.defaultFilesystem = defaultFilesystem;
    this.queue = queue;
    this.rescue = rescue;
    this.find = (id) => pool.find(id);
    this.list = (...request) => pool.list(...request);
    this.findSnapshot = (id) => pool.findSnapshot(id);
    this.listSnapshots = (...request) => pool.listSnapshots(...request);
    this.findGroup = (id) => pool.findGroup(id);
  }

  /** The same for another reason. */
  because(error: PoolQuarantined): SickPool {
    return new SickPool(this.#pool, error);
  }

  attached(id: VolumeId): Promise<Attached[]> {
    return this.rescue.attached(id);
  }

  inUse(id: VolumeId): Promise<Attached[]> {
    return this.attached(id);
  }

  async detach(attached: Attached): Promise<void> {
    if (attached.kind === 'device') {
      const seen = await this.volumeSeen({ device: attached.device, mount: undefined });
      if (seen === undefined) return;
    }
    await this.rescue.detach(attached);
  }

  /** It would have to be written to; when the pool is opened again, that is done. */
  async endUnseenFreeze(): Promise<void> {}

  /** By its name alone it may be another pool's. */
  async volumeSeen(seen: Seen): Promise<SeenVolume | undefined> {
    const volume = await this.rescue.volumeSeen(seen);
    return volume !== undefined && (await this.#isOurs(volume.id)) ? volume : undefined;
  }

  /** A record that cannot be read, or of which it is not known whether it is there, is one, too. */
  #isOurs(id: VolumeId): Promise<boolean> {
    return this.#pool.find(id).then(
      (record) => record !== undefined,
      () => true,
    );
  }

  changedRanges(): AsyncIterable<never> {
    return { [Symbol.asyncIterator]: () => ({ next: this.#refuse }) };
  }

  readonly create = this.#refuse;
  readonly adopt = this.#refuse;
  readonly release = this.#refuse;
  readonly remove = this.#refuse;
  readonly modify = this.#refuse;
  readonly setPublication = this.#refuse;
  readonly trash = this.#refuse;
  readonly restore = this.#refuse;
  readonly requireRestorable = this.#refuse;
  readonly purge = this.#refuse;
  readonly grow = this.#refuse;
  readonly takeSnapshots = this.#refuse;
  readonly removeSnapshot = this.#refuse;
  readonly removeGroup = this.#refuse;
  readonly repair = this.#refuse;
  readonly attach = this.#refuse;
  readonly settleFilesystem = this.#refuse;
  readonly trim = this.#refuse;
  readonly capacity = this.#refuse;
  readonly usage = this.#refuse;
  readonly listEphemeral = this.#refuse;
  readonly quotaUsage = this.#refuse;
  readonly condition = this.#refuse;
  readonly checkHealth = this.#refuse;

  /** It was abandoned when it was found to be sick. */
  abandon(): void {}

  async close(): Promise<void> {}
}
