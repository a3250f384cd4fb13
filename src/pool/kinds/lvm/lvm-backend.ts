import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { DataLoss } from '../../../volume/errors.ts';
import type { Backend, Extras, Recorded, Snapshotter } from '../../backend.ts';
import type { Traits } from '../../pool.ts';
import type { WipePolicy } from '../../wipe/wipe.ts';
import type { Wiper } from '../../wipe/wiper.ts';
import { LvmAttacher } from './attacher.ts';
import { LvSnapshotDraft } from './drafts.ts';
import { poolLvName } from './names.ts';
import type { PoolVolume } from './pool-volume.ts';
import { LvmProvisioner } from './provisioner.ts';
import { TagStore } from './record-store.ts';
import { LvmSpace } from './space.ts';
import { linearTraits } from './traits.ts';
import type { VolumeGroup } from './volume-group.ts';

export interface LvmBackendOptions {
  readonly queue: DiskQueue;
  /** Where volumes are opened and copied. */
  readonly calls: DiskQueue;
  /** Where mkfs runs. */
  readonly formatQueue: DiskQueue;
  readonly group: VolumeGroup;
  readonly poolVolume: PoolVolume;
  readonly wiper: Wiper;
  readonly wipePolicy: WipePolicy;
  /** The logical block size of its disks. */
  readonly blockSizeBytes: number;
  /** What is held for as long as the pool is open. */
  readonly held: AsyncDisposableStack;
}

/** What the parts of an LVM backend work with. */
export interface LvmParts extends LvmBackendOptions {
  /** Logical volumes that are active because they were made or read here, and not because somebody is to use them. */
  readonly idle: Set<string>;
  missing(object: Recorded): DataLoss;
}

/** Volumes as logical volumes of a volume group. */
export class LvmBackend implements Backend {
  readonly kind = 'lvm';
  readonly traits: Traits;
  readonly queue: DiskQueue;
  readonly records: TagStore;
  readonly provisioner: LvmProvisioner;
  readonly attacher: LvmAttacher;
  readonly snapshotter: Snapshotter;
  readonly space: LvmSpace;
  readonly extras: Extras;
  readonly #parts: LvmParts;

  constructor(options: LvmBackendOptions) {
    const { group, queue, wiper } = options;
    const missing = ({ kind, record }: Recorded) =>
      new DataLoss(`${kind} ${record.id}: its logical volume in volume group ${group.name} is missing.`);
    const parts: LvmParts = { ...options, idle: new Set(), missing };
    this.#parts = parts;
    this.queue = queue;
    this.traits = linearTraits(group.state.extentBytes);
    this.records = new TagStore(group);
    this.provisioner = new LvmProvisioner(parts);
    this.attacher = new LvmAttacher(parts);
    this.snapshotter = { draft: (id) => new LvSnapshotDraft(parts, id) };
    this.space = new LvmSpace(group);
    this.extras = { wipes: () => wiper.progress() };
  }

  blockSizeOf(): number {
    return this.#parts.blockSizeBytes;
  }

  probe(queue: DiskQueue): Promise<void> {
    return this.#parts.poolVolume.probe(queue);
  }

  abandon(): void {
    void this.#parts.held.disposeAsync();
  }

  /** What nobody uses is as it was after the boot: the next start takes nothing for left behind. */
  async close(): Promise<void> {
    const { group, held, idle, poolVolume } = this.#parts;
    const active = [...idle].filter((name) => group.get(name) !== undefined && group.deviceOf(name) !== undefined);
    await poolVolume.unlock();
    await group.deactivate([...active, poolLvName]).catch(() => undefined);
    await held.disposeAsync();
  }
}
