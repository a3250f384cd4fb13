import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import type { ByteRange } from '../../kernel/file/sparse.ts';
import { FailedPrecondition, HoldfastError, NotFound } from '../../volume/errors.ts';
import type { FilesystemType } from '../../volume/filesystem.ts';
import type { GroupId, SnapshotId, VolumeId } from '../../volume/id.ts';
import type { Layout } from '../../volume/layout.ts';
import type { Publication, VolumeRecord, VolumeSource } from '../../volume/record.ts';
import type { Secrets } from '../../volume/secrets.ts';
import type { GroupRecord, SnapshotRecord } from '../../volume/snapshot-record.ts';
import type { Trimming } from '../../volume/trimming.ts';
import type { Backend } from '../backend.ts';
import { abnormal } from '../condition.ts';
import type {
  AdoptionSpec,
  Attached,
  Attachment,
  AttachOptions,
  ChangedRangesRequest,
  ClusterReach,
  Condition,
  GroupSpec,
  HealthWatch,
  ListedSnapshot,
  Pool,
  PoolCapacity,
  PoolUsage,
  QuotaUsage,
  Seen,
  SeenVolume,
  SnapshotSpec,
  Traits,
  TrashedVolume,
  TrimOptions,
  VolumeChanges,
  VolumeSpec,
} from '../pool.ts';
import { Adoptions } from './adoptions.ts';
import { Creation } from './creation.ts';
import { Deletion } from './deletion.ts';
import { Moves } from './moves.ts';
import type { CatalogParts } from './parts.ts';
import { Repair } from './repair.ts';
import { Snapshots } from './snapshots.ts';
import { Volumes } from './volumes.ts';

/** The part of a pool's configuration that the catalog only reports. */
export interface CatalogSettings {
  readonly defaultFilesystem: FilesystemType;
  readonly trimming: Trimming;
}

/** A pool of any kind: what all kinds have in common, over the backend that is the kind's own. */
export class Catalog implements Pool {
  readonly defaultFilesystem: FilesystemType;
  readonly trimming: Trimming;
  readonly #backend: Backend;
  readonly #parts: CatalogParts;
  readonly #adoptions: Adoptions;
  readonly #creation: Creation;
  readonly #volumes: Volumes;
  readonly #deletion: Deletion;
  readonly #snapshots: Snapshots;
  readonly #repair: Repair;
  readonly moves: Moves | undefined;

  constructor(parts: CatalogParts, settings: CatalogSettings) {
    this.#parts = parts;
    this.#backend = parts.backend;
    this.#adoptions = new Adoptions(parts);
    this.#creation = new Creation(parts);
    this.#volumes = new Volumes(parts);
    this.#deletion = new Deletion(parts);
    this.#snapshots = new Snapshots(parts);
    this.#repair = new Repair(parts);
    const { transfer } = parts.backend.extras;
    this.moves = transfer && new Moves(parts, transfer);
    this.defaultFilesystem = settings.defaultFilesystem;
    this.trimming = settings.trimming;
  }

  /** Before it is used. */
  async begin(): Promise<this> {
    await this.moves?.learn();
    return this;
  }

  get name(): string {
    return this.#parts.name;
  }

  get kind(): string {
    return this.#backend.kind;
  }

  /** With those that live no longer than their pod. */
  get volumeCount(): number {
    return this.#parts.index.size;
  }

  get traits(): Traits {
    return this.#backend.traits;
  }

  get cluster(): ClusterReach | undefined {
    return this.#backend.cluster;
  }

  get queue(): DiskQueue {
    return this.#backend.queue;
  }

  async find(id: VolumeId): Promise<VolumeRecord | undefined> {
    await this.#parts.unsettled.settle(id);
    return this.#parts.index.get(id);
  }

  /** Before a volume is used, changed or removed: its state is known, and this copy of it is the volume. */
  async #usable(id: VolumeId): Promise<void> {
    await this.#parts.unsettled.settle(id);
    if (this.#parts.index.get(id) !== undefined) await this.moves?.requireUsable(id);
  }

  /** Before a volume is read: this copy is not one that was left. */
  async #current(id: VolumeId): Promise<void> {
    if (this.#parts.index.get(id) !== undefined) await this.moves?.requireCurrent(id);
  }

  async list(after: VolumeId | undefined, limit: number | undefined): Promise<VolumeRecord[]> {
    return this.#parts.index.list(after, limit, ({ ephemeral }) => ephemeral === undefined);
  }

  async listEphemeral(): Promise<VolumeRecord[]> {
    return this.#parts.index.list(undefined, undefined, ({ ephemeral }) => ephemeral !== undefined);
  }

  async create(spec: VolumeSpec, source?: VolumeSource): Promise<VolumeRecord> {
    await this.#parts.unsettled.settle(spec.id, ...(source === undefined ? [] : [source.id]));
    if (source?.type === 'volume') await this.#current(source.id);
    if (source?.type === 'snapshot' && this.#isLeft(source.id)) throw this.#noSnapshot(source.id);
    return this.#creation.create(spec, source);
  }

  async adopt(spec: AdoptionSpec): Promise<VolumeRecord> {
    await this.#parts.unsettled.settle(spec.id);
    return this.#adoptions.adopt(spec);
  }

  async release(id: VolumeId, path: string | undefined): Promise<string> {
    await this.#usable(id);
    return this.#adoptions.release(this.#volumes.require(id), path);
  }

  async grow(id: VolumeId, sizeBytes: bigint): Promise<VolumeRecord> {
    await this.#usable(id);
    return this.#volumes.grow(id, sizeBytes);
  }

  async modify(id: VolumeId, changes: VolumeChanges): Promise<VolumeRecord> {
    await this.#usable(id);
    return this.#volumes.modify(id, changes);
  }

  async setPublication(
    id: VolumeId,
    publication: Publication | undefined,
    others: readonly Publication[] = [],
  ): Promise<VolumeRecord> {
    await this.#usable(id);
    return this.#volumes.setPublication(id, publication, others);
  }

  async trim(id: VolumeId, options: TrimOptions): Promise<bigint | undefined> {
    const record = this.#parts.index.get(id);
    return record && (await this.#backend.extras.trim?.(record, options));
  }

  async remove(id: VolumeId): Promise<void> {
    await this.#usable(id);
    return this.#deletion.remove(id);
  }

  trash(): Promise<TrashedVolume[]> {
    return this.#deletion.list();
  }

  async restore(id: VolumeId): Promise<VolumeRecord> {
    await this.#parts.unsettled.settle(id);
    return this.#deletion.restore(id);
  }

  async requireRestorable(id: VolumeId): Promise<void> {
    await this.#parts.unsettled.settle(id);
    return this.#deletion.requireRestorable(id);
  }

  purge(id?: VolumeId): Promise<VolumeId[]> {
    return this.#deletion.purge(id);
  }

  async takeSnapshots(specs: readonly SnapshotSpec[], group?: GroupSpec): Promise<SnapshotRecord[]> {
    const groups = group === undefined ? [] : [group.id];
    await this.#parts.unsettled.settle(...groups, ...specs.flatMap(({ id, sourceId }) => [id, sourceId]));
    for (const { sourceId } of specs) await this.#current(sourceId);
    return this.#snapshots.take(specs, group);
  }

  async findSnapshot(id: SnapshotId): Promise<SnapshotRecord | undefined> {
    await this.#parts.unsettled.settle(id);
    return this.#isLeft(id) ? undefined : this.#parts.snapshotIndex.get(id);
  }

  /** The snapshot has followed its volume to another pool. */
  #isLeft(id: SnapshotId): boolean {
    return this.moves?.snapshots.isLeft(id) === true;
  }

  async listSnapshots(
    after: SnapshotId | undefined,
    limit: number | undefined,
    sourceId?: VolumeId,
    withLeft = false,
  ): Promise<ListedSnapshot[]> {
    const waiting = withLeft ? await this.moves?.snapshots.waiting() : undefined;
    const isShown = (id: SnapshotId) => !this.#isLeft(id) || waiting?.has(id) === true;
    const isWanted = ({ id, sourceId: source }: SnapshotRecord) =>
      (sourceId === undefined || source === sourceId) && isShown(id);
    const records = this.#parts.snapshotIndex.list(after, limit, isWanted);
    return records.map((record) => (this.#isLeft(record.id) ? { ...record, isLeft: true } : record));
  }

  async removeSnapshot(id: SnapshotId): Promise<void> {
    await this.#parts.unsettled.settle(id);
    const isNoted = (await this.moves?.snapshots.beginRemoval(id)) === true;
    await this.#snapshots.remove(id, isNoted);
  }

  changedRanges(request: ChangedRangesRequest): AsyncIterable<ByteRange> {
    const { changedRanges } = this.#backend.extras;
    if (changedRanges === undefined) {
      throw new FailedPrecondition(
        `pool ${this.name} (${this.kind}) cannot tell which blocks of a snapshot hold data. Make a full backup: read all of it.`,
      );
    }
    return changedRanges(request, (id) => {
      const record = this.#isLeft(id) ? undefined : this.#parts.snapshotIndex.get(id);
      if (record === undefined) throw this.#noSnapshot(id);
      return record;
    });
  }

  #noSnapshot(id: SnapshotId): NotFound {
    return new NotFound(`There is no snapshot ${id} in pool ${this.name}.`);
  }

  async findGroup(id: GroupId): Promise<GroupRecord | undefined> {
    await this.#parts.unsettled.settle(id);
    return this.#parts.snapshotIndex.groups.get(id);
  }

  async removeGroup(id: GroupId): Promise<void> {
    await this.#parts.unsettled.settle(id);
    await this.#snapshots.removeGroup(id);
  }

  async repair(id: VolumeId, fsType: FilesystemType, secrets?: Secrets): Promise<void> {
    await this.#usable(id);
    return this.#repair.repair(this.#volumes.require(id), fsType, secrets);
  }

  async attach(id: VolumeId, options: AttachOptions): Promise<Attachment> {
    await this.#usable(id);
    const record = await this.#volumes.withKeyOf(id, options.secrets);
    this.#parts.space.willWrite(id);
    const attachment = await this.#backend.attacher.attach(record, options);
    try {
      // The kernel may still have its filesystem, frozen, from before.
      await this.#parts.freezer.endUnseen({ ...record, attached: [attachment] });
      return attachment;
    } catch (error) {
      await attachment.release();
      throw error;
    }
  }

  async endUnseenFreeze(id: VolumeId): Promise<void> {
    const { freezer, index } = this.#parts;
    const record = index.get(id);
    if (record !== undefined)
      await freezer.endUnseen({ ...record, attached: await this.#backend.attacher.attached(id) });
  }

  settleFilesystem(id: VolumeId, directory: Descriptor): Promise<void> {
    return this.#parts.freezer.settle(id, directory);
  }

  attached(id: VolumeId): Promise<Attached[]> {
    return this.#backend.attacher.attached(id);
  }

  inUse(id: VolumeId): Promise<readonly Attached[]> {
    return this.#backend.attacher.inUse(id);
  }

  detach(attached: Attached): Promise<void> {
    return this.#backend.attacher.detach(attached);
  }

  volumeSeen(seen: Seen): Promise<SeenVolume | undefined> {
    return this.#backend.attacher.volumeSeen(seen);
  }

  get rescue(): Pool['rescue'] {
    return this.#backend.attacher.rescue;
  }

  async capacity(layout?: Layout): Promise<PoolCapacity> {
    const capacity = await this.#parts.space.measure();
    const { layouts } = this.#backend.space;
    if (layout === undefined || layouts === undefined) return capacity;
    const { availableBytes, thickAvailableBytes } = capacity;
    return {
      ...capacity,
      availableBytes: layouts.largestBytes(availableBytes, layout),
      thickAvailableBytes: layouts.largestBytes(thickAvailableBytes, layout),
    };
  }

  async usage(): Promise<PoolUsage> {
    const { index, snapshotIndex, space, trash } = this.#parts;
    const [{ allocatedBytes, capacity, disk, trashedBytes }, isNearlyFull, counts] = await Promise.all([
      space.survey(),
      space.isNearlyFull(),
      this.#backend.attacher.counts(),
    ]);
    return {
      capacity,
      disk,
      isNearlyFull,
      volumes: Array.from(index.all(), (record) => ({
        record,
        usedBytes: allocatedBytes(record.id),
        devices: counts.get(record.id) ?? 0,
      })),
      snapshots: snapshotIndex.size,
      trash: { volumes: trash.entries().length, usedBytes: trashedBytes },
      wipingBytes: (this.#backend.extras.wipes?.() ?? []).reduce(
        (sum, each) => sum + each.totalBytes - each.doneBytes,
        0n,
      ),
      damagedRecords: index.damagedCount + snapshotIndex.damagedCount + snapshotIndex.groups.damagedCount,
    };
  }

  async quotaUsage(id: VolumeId): Promise<QuotaUsage | undefined> {
    return this.#backend.extras.quotaUsage?.(id);
  }

  async condition(id: VolumeId): Promise<Condition> {
    const { index } = this.#parts;
    const record = index.get(id);
    if (record === undefined) return abnormal('The pool has no record of this volume.');
    const problem = await this.#backend.provisioner.conditionOf(record);
    return problem ?? (await this.#repairCondition(record).catch(unreadable));
  }

  /** Reports a repair as long as the original is in the trash, so that an operator compares them. */
  async #repairCondition({ repair }: VolumeRecord): Promise<Condition> {
    if (repair === undefined || this.#parts.trash.of(repair.originalId).length === 0) return this.#spaceCondition();
    const message = `Its filesystem was damaged and has been repaired. The original is in the trash: ${repair.originalId}`;
    return abnormal(message);
  }

  async #spaceCondition(): Promise<Condition> {
    // A volume that has all of its space from the start can be written to, however full the pool is.
    const canRunOut = this.traits.provisioning.includes('thin');
    if (!canRunOut || !(await this.#parts.space.isNearlyFull())) {
      return { abnormal: false, message: 'The volume is healthy.' };
    }
    const message = `The disk of pool ${this.name.slice(0, 24)} is nearly full: free some of it, or writes will fail.`;
    return abnormal(message);
  }

  checkHealth(queue: DiskQueue, watch: HealthWatch): Promise<void> {
    return this.#backend.probe(queue, watch);
  }

  abandon(): void {
    this.#parts.trash.abandon();
    this.#backend.abandon();
  }

  async close(): Promise<void> {
    await this.#parts.trash.close();
    await this.#backend.close();
  }
}

/** The condition while the pool cannot be measured; a list of volumes must not fail for it. */
function unreadable(error: unknown): Condition {
  // For example, the pool is in quarantine by now.
  if (error instanceof HoldfastError) throw error;
  return abnormal('The disk of its pool cannot be read; see the kernel log of the node.');
}
