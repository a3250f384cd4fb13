import type { Place } from '../../kernel/file/fiemap.ts';
import { fewAtOnce } from '../../volume/flow/few-at-once.ts';
import { parseVolumeId, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { larger, smaller } from '../../volume/size.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import type { DataRef, SpaceSource, StorageSpace } from '../backend.ts';
import type { RecordIndex } from '../indexes/record-index.ts';
import type { SnapshotIndex } from '../indexes/snapshot-index.ts';
import type { TrashEntry, TrashRef } from '../indexes/trash-entry.ts';
import { Lineage, type Relative } from './lineage.ts';
import { findSharedBlocks, type SharedBlocks, type SharingImage } from './shared-blocks.ts';
import type { ImageUse } from './space.ts';
import { type StillImage, StillSpace } from './still-space.ts';
import { type Sharing, type SumsThen, VolumeSpace } from './volume-space.ts';

/** The deleted volumes that are kept. */
export interface TrashContents {
  entries(): TrashEntry[];
  /** Entries that may be purged for room, the last deletion first. */
  expendable(): Promise<TrashEntry[]>;
  of(id: VolumeId): TrashEntry[];
}

export interface SpaceSources {
  readonly source: SpaceSource;
  readonly index: RecordIndex<VolumeId, VolumeRecord>;
  readonly snapshotIndex: SnapshotIndex;
  readonly trash: TrashContents;
  /** The number of devices of each volume. */
  readonly counts: () => Promise<ReadonlyMap<string, number>>;
}

/** The measurements of one moment. */
export interface Observation extends StorageSpace {
  readonly then: SumsThen;
  readonly depth: Depth;
}

/**
 * known: changed objects are looked at, and no image is opened. maps: maps of extents are read as well, if operations have
 * made them untrue, and now and then those of volumes that are written to. exact: those in any case.
 */
export type Depth = 'known' | 'maps' | 'exact';

/** Which volumes are no longer in use is looked up so often at most. */
const restIntervalMs = 10_000;
const pauseFactor = 9;

/** Looks at the images of a pool, and knows what it saw: see `VolumeSpace`. */
export class SpaceObserver {
  readonly volumes = new VolumeSpace();
  readonly #sources: SpaceSources;
  readonly #snapshots = new StillSpace();
  readonly #trashed = new StillSpace();
  readonly #lineage = new Lineage();
  /** The place of each object in the lineage, by its id: existing ones, and those whose data is on its way out. */
  readonly #relatives = new Map<string, Relative>();
  readonly #leaving = new Map<string, Relative[]>();
  /** Deleted volumes whose blocks others may share. */
  readonly #onceShared = new Set<VolumeId>();
  /** Deleted volumes that may share blocks with templates. */
  readonly #onceOfTemplate = new Set<VolumeId>();
  #hasBegun = false;
  #restLookedAtMs = Number.NEGATIVE_INFINITY;
  #thoroughDueMs = Number.NEGATIVE_INFINITY;
  #isCountedLate = false;
  #shared: SharedBlocks | undefined;
  #sharedAt: number | undefined;
  #sharedDueMs = Number.NEGATIVE_INFINITY;
  #finding: Promise<void> = Promise.resolve();
  /** The number of times that something that is not written came or went. */
  #revision = 0;

  constructor(sources: SpaceSources) {
    this.#sources = sources;
  }

  /** Runs at the first look, as the content of the trash is known only then. */
  async #begin(): Promise<void> {
    const { index, snapshotIndex, source, trash } = this.#sources;
    const counts = await this.#sources.counts();
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    const [volumes, snapshots] = [[...index.all()], [...snapshotIndex.all()]];
    const deleted = trash.entries().map(({ record }) => record);
    this.#lineage.begin([...volumes, ...deleted, ...snapshots].map(relativeOf));
    for (const record of [...volumes, ...snapshots]) this.#relatives.set(record.id, relativeOf(record));
    for (const record of deleted) this.#leaves(relativeOf(record));
    for (const record of volumes) {
      this.volumes.put(record, this.#sharingBefore(record));
      if (counts.has(record.id)) this.volumes.use(record.id);
    }
    for (const record of deleted) {
      const sharing = this.#sharingBefore(record);
      if (sharing === 'anything') this.#onceShared.add(record.id);
      else if (sharing === 'template') this.#onceOfTemplate.add(record.id);
    }
    for (const { id } of snapshots) this.#putSnapshot(id);
    source.onCounted = (data) => {
      const volumeId = parseVolumeId(data);
      if (volumeId !== undefined) this.volumes.unsee(volumeId);
      else for (const space of [this.#snapshots, this.#trashed]) space.unsee(data);
    };
    index.onChange = (id, record) => {
      this.#changeRelative(id, record);
      if (record !== undefined) return this.volumes.put(record, this.#sharingOfNew(record));
      const sharing = this.volumes.sharingOf(id);
      if (sharing === 'anything') this.#onceShared.add(id);
      else if (sharing !== 'nothing') this.#onceOfTemplate.add(id);
      this.volumes.delete(id);
    };
    snapshotIndex.onChange = (id, record) => {
      this.#revision++;
      this.#changeRelative(id, record);
      if (record === undefined) this.#snapshots.delete(id);
      else this.#putSnapshot(record.id);
    };
  }

  /** The bytes of all images, each block counted once as far as `findShared` knows; never more than there is. */
  usedBytes({ takenBytes }: StorageSpace): bigint {
    const { allocatedBytes, templateBytes } = this.volumes.sums;
    const allocated = allocatedBytes + this.#snapshots.allocatedBytes + this.#trashed.allocatedBytes;
    const { sharesBlocks, templates } = this.#sources.source;
    const withTemplates = allocated + (templates?.takenBytes ?? 0n);
    if (!sharesBlocks) return withTemplates;
    const duplicateBytes = (this.#shared?.duplicateBytes ?? 0n) + templateBytes;
    return larger(0n, smaller(takenBytes, withTemplates - duplicateBytes));
  }

  /** The bytes that would be free without snapshots, with the same limits. */
  get snapshotBytes(): bigint {
    return this.#shared?.snapshotBytes ?? this.#snapshots.allocatedBytes;
  }

  /** Looks for blocks that several images have, if that may have changed. Takes its time: one look at a time. */
  findShared(): Promise<void> {
    const isIdle = this.volumes.sharing.every((id) => !this.volumes.live.has(id));
    const revision = this.volumes.revision + this.#revision;
    const isKnown = revision === this.#sharedAt && isIdle;
    if (!this.#sources.source.sharesBlocks || isKnown || performance.now() < this.#sharedDueMs) return this.#finding;
    this.#sharedDueMs = Number.POSITIVE_INFINITY;
    this.#finding = this.#findShared(revision);
    return this.#finding;
  }

  async #findShared(revision: number): Promise<void> {
    const { source } = this.#sources;
    const startedMs = performance.now();
    try {
      const places = (data: DataRef) => source.places?.(data) ?? nowhere();
      const written = [...this.volumes.sharing, ...this.#trashed.sharing()];
      this.#shared = await findSharedBlocks([
        ...written.map((data): SharingImage => ({ isSnapshot: false, places: places(data) })),
        ...this.#snapshots.sharing().map((data) => ({ isSnapshot: true, places: places(data) })),
      ]);
      this.#sharedAt = revision;
    } finally {
      const endedMs = performance.now();
      this.#sharedDueMs = endedMs + pauseFactor * (endedMs - startedMs);
    }
  }

  get trashedBytes(): bigint {
    return this.#trashed.allocatedBytes;
  }

  /** The bytes that the end of something in the trash would certainly free. */
  givesBytes({ ref }: TrashEntry): bigint {
    return this.#trashed.ownedBytes(ref);
  }

  /** Something was destroyed. What it shared blocks with may own them now. */
  gone(ref: TrashRef): void {
    this.#revision++;
    this.#sources.source.forget?.(ref);
    const relative = this.#leavingIn(ref);
    if (relative === undefined) {
      // A draft, or what an earlier driver has left: it may have been made from anything.
      if (this.#sources.source.sharesBlocks) this.volumes.outdateMaps();
      return;
    }
    const { createdAt, id } = relative;
    for (const other of this.#lineage.sharers(relative)) this.volumes.outdateMap(other);
    this.#lineage.remove(relative);
    const rest = this.#leaving.get(id)?.filter((each) => each.createdAt !== createdAt) ?? [];
    if (rest.length > 0) this.#leaving.set(id, rest);
    else this.#leaving.delete(id);
    for (const once of [this.#onceShared, this.#onceOfTemplate] as readonly Set<string>[]) {
      if (rest.length === 0) once.delete(id);
    }
  }

  /** An object exists, or its record is gone and its data is to go. */
  #changeRelative(id: string, record: VolumeRecord | SnapshotRecord | undefined): void {
    const before = this.#relatives.get(id);
    if (record === undefined) {
      this.#relatives.delete(id);
      if (before !== undefined) this.#leaves(before);
      return;
    }
    const relative = relativeOf(record);
    this.#relatives.set(id, relative);
    this.#lineage.add(relative);
    // It was brought back.
    const rest = this.#leaving.get(id)?.filter(({ createdAt }) => createdAt !== record.createdAt);
    if (rest !== undefined) this.#leaving.set(id, rest);
  }

  #leaves(relative: Relative): void {
    const others = this.#leaving.get(relative.id)?.filter(({ createdAt }) => createdAt !== relative.createdAt) ?? [];
    this.#leaving.set(relative.id, [...others, relative]);
  }

  /** The object in that place, as far as it is known: it is on its way out, and the trash does not keep it. */
  #leavingIn(ref: TrashRef): Relative | undefined {
    const { source, trash } = this.#sources;
    const id = source.idInTrash(ref);
    const leaving = id === undefined ? [] : (this.#leaving.get(id) ?? []);
    if (id === undefined || leaving.length === 0) return undefined;
    const volumeId = parseVolumeId(id);
    const kept = volumeId === undefined ? [] : trash.of(volumeId);
    const own = kept.find((entry) => entry.ref === ref);
    if (own !== undefined) return leaving.find(({ createdAt }) => createdAt === own.record.createdAt);
    return leaving.find(({ createdAt }) => !kept.some(({ record }) => record.createdAt === createdAt));
  }

  /** Gives up the templates. What they shared with one volume is its own then. @returns whether there were any */
  async clearTemplates(): Promise<boolean> {
    if ((await this.#sources.source.templates?.clear()) !== true) return false;
    await this.settle();
    this.volumes.outdateMaps();
    return true;
  }

  /** True if others may share blocks of an object on its way out. */
  mayBeShared(ref: TrashRef): boolean {
    const { source } = this.#sources;
    if (!source.sharesBlocks) return false;
    const relative = this.#hasBegun ? this.#leavingIn(ref) : undefined;
    if (relative === undefined || !this.#lineage.isAlone(relative)) return true;
    const id = parseVolumeId(relative.id);
    return id !== undefined && (this.#onceShared.has(id) || this.volumes.sharingOf(id) === 'anything');
  }

  /** Waits until the blocks of unlinked files are free. */
  async settle(): Promise<void> {
    await this.#sources.source.settle?.();
  }

  /** The space that an image in the trash takes. */
  async lookAt({ record, ref }: TrashEntry): Promise<ImageUse> {
    if (this.#sharingOf(record) !== 'nothing') return this.#readMap(ref, relativeOf(record), false);
    return { sharedBytes: 0n, allocatedBytes: await this.#allocatedBytes(ref) };
  }

  /** The free space is read last: writes meanwhile make the answer smaller, not larger. */
  async look(depth: Depth): Promise<Observation> {
    if (!this.#hasBegun) await this.#begin();
    if (depth === 'known') await this.#see({ canRaise: !this.#isCountedLate, evenInUse: true });
    else await this.#seeAndMap(depth);
    return await this.#observe(depth);
  }

  /**
   * Looks only at what operations have changed: the figures of volumes in use are those of an earlier look.
   * @returns undefined if there was none, or if such figures are worth nothing here
   */
  async lookAside(depth: 'known' | 'maps'): Promise<Observation | undefined> {
    if (!this.#hasBegun || this.#isCountedLate) return undefined;
    await this.#see({ canRaise: true, evenInUse: false });
    if (depth === 'maps') await this.#map(false, false);
    return await this.#observe(depth);
  }

  async #observe(depth: Depth): Promise<Observation> {
    const then = this.volumes.now();
    const filesystem = await this.readFilesystem();
    this.#isCountedLate = filesystem.isCountedLate;
    return { ...filesystem, then, depth };
  }

  /** For questions, maps of volumes in use are read, and data is written back, for a tenth of the time at most. */
  async #seeAndMap(depth: Depth): Promise<void> {
    const startedMs = performance.now();
    const isThorough = depth === 'exact' || startedMs >= this.#thoroughDueMs;
    if (isThorough && this.#isCountedLate) await this.#sources.source.sync?.();
    await this.#see({ canRaise: isThorough || !this.#isCountedLate, evenInUse: true });
    await this.#map(isThorough, depth === 'exact');
    const endedMs = performance.now();
    if (isThorough) this.#thoroughDueMs = endedMs + pauseFactor * (endedMs - startedMs);
  }

  readFilesystem(): Promise<StorageSpace> {
    return this.#sources.source.storage();
  }

  /**
   * @param canRaise true if all bytes that are reported as taken have already been subtracted from the free ones
   * @param evenInUse false: volumes that only their users have changed are passed over
   */
  async #see({ canRaise, evenInUse }: { canRaise: boolean; evenInUse: boolean }): Promise<void> {
    if (canRaise) await this.#rest();
    const { source, trash } = this.#sources;
    const entries = trash.entries();
    // The original of a repaired volume comes without having been a volume under its id.
    for (const { record, ref } of entries) {
      if (!this.#lineage.has(relativeOf(record))) this.#learn(relativeOf(record));
      if (!this.#trashed.has(ref)) source.moved?.(record.id, ref);
    }
    this.#trashed.keepOnly(entries.map((entry) => this.#trashedImage(entry)));
    const volumes = fewAtOnce(this.volumes.toSee(evenInUse), async (id) => {
      const tell = this.volumes.beginLook(id);
      tell(await this.#allocatedBytes(id), canRaise || !this.volumes.live.has(id));
    });
    const still = [this.#snapshots, this.#trashed].map((space) =>
      fewAtOnce(space.toSee(), async (data) => space.saw(data, await this.#allocatedBytes(data))),
    );
    await Promise.all([volumes, ...still]);
  }

  #learn(relative: Relative): void {
    this.#lineage.add(relative);
    this.#leaves(relative);
  }

  /** A volume without a device is not written to. */
  async #rest(): Promise<void> {
    if (this.volumes.live.size === 0 || performance.now() - this.#restLookedAtMs < restIntervalMs) return;
    this.#restLookedAtMs = performance.now();
    const live = [...this.volumes.live];
    const counts = await this.#sources.counts();
    for (const [id, since] of live) {
      if (counts.has(id)) continue;
      this.volumes.rest(id, since);
      // Its end is not waited for.
      void this.#sources.source.recount?.(id);
    }
  }

  async #map(evenInUse: boolean, evenOfTemplates: boolean): Promise<void> {
    await Promise.all([
      fewAtOnce(this.volumes.toMap(evenInUse, evenOfTemplates), async (id) => {
        const tell = this.volumes.beginMap(id);
        const isLive = this.volumes.live.has(id);
        const { allocatedBytes, sharedBytes } = await this.#readMap(id, this.#relatives.get(id), isLive);
        tell(sharedBytes);
        this.volumes.saw(id, allocatedBytes, evenInUse || !this.#isCountedLate);
      }),
      fewAtOnce(this.#trashed.toMap(evenInUse), async ({ data, relative }) => {
        const { allocatedBytes, sharedBytes } = await this.#readMap(data, relative, false);
        this.#trashed.mapped(data, sharedBytes);
        this.#trashed.saw(data, allocatedBytes);
      }),
    ]);
  }

  /**
   * The allocated bytes of a volume are read last: new writes meanwhile then count as shared, not as owned.
   *
   * When shared blocks are written, XFS takes more than it writes, for what may be written next, and gives the rest back
   * minutes later (xfs(5), speculative preallocation). The file takes them, but its map does not have them.
   * @param isLive false: there will be no look when they go, so they count as shared
   */
  async #readMap(data: DataRef, relative: Relative | undefined, isLive: boolean): Promise<ImageUse> {
    const { source } = this.#sources;
    if (source.sharing === undefined) {
      const allocatedBytes = await this.#allocatedBytes(data);
      return { allocatedBytes, sharedBytes: this.#sharedAtMost(relative, allocatedBytes) };
    }
    const { sharedBytes, unsharedBytes } = await source.sharing(data);
    const allocatedBytes = await this.#allocatedBytes(data);
    return { allocatedBytes, sharedBytes: isLive ? sharedBytes : larger(sharedBytes, allocatedBytes - unsharedBytes) };
  }

  /**
   * Upper limit of shared bytes of data without a map: all of it, and no more than its relatives take. The bytes that a relative
   * took at any time since the blocks were shared are good enough, because fewer are shared with time.
   */
  #sharedAtMost(relative: Relative | undefined, allocatedBytes: bigint): bigint {
    if (relative === undefined) return allocatedBytes;
    if (this.#lineage.isAlone(relative)) return 0n;
    let sum = 0n;
    for (const id of this.#lineage.sharers(relative)) {
      const bytes = this.#knownBytes(id);
      // It was not counted yet: a directory takes a block at least.
      if (bytes === 0n) return allocatedBytes;
      sum += bytes;
      if (sum >= allocatedBytes) return allocatedBytes;
    }
    return sum;
  }

  #knownBytes(id: string): bigint {
    const volumeId = parseVolumeId(id);
    // The sum, as an id may be that of a volume and of a deleted one.
    return (
      (volumeId === undefined ? 0n : this.volumes.allocatedBytes(volumeId)) +
      this.#snapshots.allocatedOf(id) +
      this.#trashed.allocatedOf(id)
    );
  }

  #putSnapshot(id: SnapshotId): void {
    const { sharesBlocks } = this.#sources.source;
    this.#snapshots.put({ data: id, relative: this.#relatives.get(id), mayShare: sharesBlocks });
  }

  #trashedImage({ record, ref }: TrashEntry): StillImage {
    const sharing = this.#sharingOf(record);
    return {
      data: ref,
      relative: relativeOf(record),
      mayShare: sharing !== 'nothing',
      isOfTemplate: sharing === 'template',
    };
  }

  /** The objects with which a volume that comes back, or is gone, may share blocks. */
  #sharingOf({ id, source }: VolumeRecord): Sharing {
    if (!this.#sources.source.sharesBlocks) return 'nothing';
    if (source !== undefined || this.#onceShared.has(id)) return 'anything';
    return this.#onceOfTemplate.has(id) ? 'template' : 'nothing';
  }

  /** The same of one that comes. */
  #sharingOfNew(record: VolumeRecord): Sharing {
    const sharing = this.#sharingOf(record);
    const isFresh = this.#sources.source.templates?.takeFresh(record.id) === true;
    return isFresh && sharing !== 'anything' ? 'fresh' : sharing;
  }

  /**
   * The objects with which a volume from before the start may share. One that is thick may have become so, and shares
   * its old blocks.
   */
  #sharingBefore(record: VolumeRecord): Sharing {
    const { content } = record;
    const { sharesBlocks, templates } = this.#sources.source;
    if (sharesBlocks && !this.#lineage.isAlone(relativeOf(record))) return 'anything';
    const isPossible = sharesBlocks && templates?.wereThere === true && content.type === 'mount';
    return isPossible ? 'template' : 'nothing';
  }

  #allocatedBytes(data: DataRef): Promise<bigint> {
    return this.#sources.source.allocatedBytes(data);
  }
}

/** The blocks of data whose kind does not tell where they lie. */
async function* nowhere(): AsyncGenerator<readonly Place[], void, void> {}

/** Two files share blocks only if one of them was made from the other, or both from a third. */
function relativeOf({ createdAt, id, ...record }: VolumeRecord | SnapshotRecord): Relative {
  const sourceId = 'sourceId' in record ? record.sourceId : record.source?.id;
  return { id, createdAt, sourceId };
}
