import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { DataLoss } from '../../../volume/errors.ts';
import type { Held } from '../../../volume/held.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { WipePolicy } from '../../../volume/wipe-policy.ts';
import type { Backend, Extras, Recorded } from '../../backend.ts';
import type { HealthWatch, Traits } from '../../pool.ts';
import { FilesystemTrimmer } from '../../trimmer.ts';
import type { Wiper } from '../../wipe/wiper.ts';
import { LvmAdoption } from './adoption.ts';
import { LvmAttacher } from './attacher.ts';
import { LvSnapshotDraft } from './drafts.ts';
import { askDisks, asksQueue } from './group/ask-disks.ts';
import type { VolumeGroup } from './group/volume-group.ts';
import { poolLvName, thinLvName } from './names.ts';
import type { PoolVolume } from './pool-volume.ts';
import { LvmProvisioner } from './provisioner.ts';
import { TagStore } from './record-store.ts';
import { LvmSpace } from './space.ts';
import { thinChangedBlocks } from './thin/changes/changed-blocks.ts';
import type { MetadataSnapshots } from './thin/changes/metadata-snapshots.ts';
import { ThinSpace } from './thin/space.ts';
import type { ThinPool } from './thin/thin-pool.ts';
import { thinTraits } from './thin/traits.ts';
import type { ThinWatch } from './thin/watch.ts';
import { linearTraits } from './traits.ts';
import { LvmTransfer } from './transfer.ts';

export interface LvmBackendOptions {
  readonly queue: DiskQueue;
  /** Where volumes are opened and copied. */
  readonly calls: DiskQueue;
  /** Where mkfs runs. */
  readonly formatQueue: DiskQueue;
  readonly group: VolumeGroup;
  readonly poolVolume: PoolVolume;
  /** For a pool of thin volumes. */
  readonly thin?: ThinPool | undefined;
  readonly thinWatch?: ThinWatch | undefined;
  /** undefined: changed blocks are not available. */
  readonly metadataSnapshots?: MetadataSnapshots | undefined;
  readonly wiper: Wiper;
  readonly wipePolicy: WipePolicy;
  /** The logical block size of its disks. */
  readonly blockSizeBytes: number;
  /** Resources that are held for as long as the pool is open. */
  readonly held: Held;
}

/** The shared tools of the parts of an LVM backend. */
export interface LvmParts extends LvmBackendOptions {
  /** Logical volumes that are active only because they were made or read here, not for a user. */
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
  readonly snapshotDraft: Backend['snapshotDraft'];
  readonly space: LvmSpace;
  readonly extras: Extras;
  readonly #parts: LvmParts;
  /** Where the disks are asked how they are. */
  readonly #asks: DiskQueue;

  constructor(options: LvmBackendOptions) {
    const { group, metadataSnapshots: snapshots, queue, thin, wiper } = options;
    const missing = ({ kind, record }: Recorded) =>
      new DataLoss(`${kind} ${record.id}: its logical volume in volume group ${group.name} is missing.`);
    const parts: LvmParts = { ...options, idle: new Set(), missing };
    this.#parts = parts;
    this.queue = queue;
    this.#asks = asksQueue(queue);
    const { extentBytes } = group.state;
    this.traits = thin === undefined ? linearTraits(extentBytes) : thinTraits(extentBytes);
    this.records = new TagStore(group);
    this.provisioner = new LvmProvisioner(parts);
    this.attacher = new LvmAttacher(parts);
    this.snapshotDraft = (id) => new LvSnapshotDraft(parts, id);
    this.space = thin === undefined ? new LvmSpace(group) : new ThinSpace(group, thin, thin);
    const takenBytes = async (id: VolumeId) => this.space.allocatedBytes(id);
    const trimmer = new FilesystemTrimmer({ name: group.poolName, queue, attacher: this.attacher, takenBytes });
    const changedRanges: Extras['changedRanges'] =
      snapshots && ((request, find) => thinChangedBlocks({ group, snapshots }, request, find));
    this.extras = {
      wipes: () => wiper.progress(),
      changedRanges,
      transfer: new LvmTransfer(parts, changedRanges),
      trim: thin === undefined ? undefined : (record, how) => trimmer.trim(record, how),
      // Foreign volumes are not thin, or lie in another thin pool.
      adoption: thin === undefined ? new LvmAdoption(parts) : undefined,
      noAdoption: 'has a thinPool, and adopts and releases nothing: only pools without one do (docs/lvm.md).',
    };
  }

  blockSizeOf(): number {
    return this.#parts.blockSizeBytes;
  }

  /** By the disk that the pool's own volume lies on, and by whether all the others answer: each command of LVM asks them all. */
  async probe(queue: DiskQueue, watch: HealthWatch): Promise<void> {
    await this.#parts.poolVolume.probe(queue);
    await askDisks(this.#asks, this.#parts.group.disks(), watch);
  }

  abandon(): void {
    this.#parts.thinWatch?.stop();
    this.#parts.metadataSnapshots?.abandon();
    void this.#parts.held[Symbol.asyncDispose]();
  }

  /** Unused volumes are inactive then, as after the boot: the next start sees nothing left behind. */
  async close(): Promise<void> {
    const { group, held, idle, metadataSnapshots, poolVolume, thin, thinWatch } = this.#parts;
    await thinWatch?.[Symbol.asyncDispose]();
    // If this fails, the next start gives it back.
    await metadataSnapshots?.close().catch(() => undefined);
    const active = [...idle].filter((name) => group.get(name) !== undefined && group.deviceOf(name) !== undefined);
    await poolVolume.unlock();
    const own = thin === undefined ? [poolLvName] : [thinLvName, poolLvName];
    await group.deactivate([...active, ...own]).catch(() => undefined);
    await held[Symbol.asyncDispose]();
  }
}
