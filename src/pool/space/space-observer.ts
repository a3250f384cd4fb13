import { basename, join } from 'node:path';
import { openReadOnly } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../kernel/call/errno.ts';
import { type Place, readPlaces, readSharing } from '../../kernel/file/fiemap.ts';
import { finishUnlinks, syncFilesystem } from '../../kernel/file/filesystem.ts';
import { parseVolumeId, type VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { larger, maximumVolumeBytes, smaller } from '../../volume/size.ts';
import type { RecordIndex } from '../catalog/record-index.ts';
import type { SnapshotIndex } from '../catalog/snapshot-index.ts';
import type { Trash } from '../catalog/trash.ts';
import type { TrashEntry } from '../catalog/trash-entry.ts';
import type { ImageDevices } from '../kinds/image/devices.ts';
import type { ReservedSpace } from '../location/reserved-space.ts';
import type { Layout } from '../records/layout.ts';
import { allocatedBytesOf, type FilesystemSpace, readFilesystemSpace } from './filesystem-space.ts';
import { findSharedBlocks, type SharedBlocks, type SharingImage } from './shared-blocks.ts';
import type { ImageUse } from './space.ts';
import { type StillImage, StillSpace } from './still-space.ts';
import { type SumsThen, VolumeSpace } from './volume-space.ts';

export interface SpaceSources {
  readonly queue: DiskQueue;
  readonly layout: Layout;
  readonly index: RecordIndex;
  readonly snapshotIndex: SnapshotIndex;
  readonly trash: Pick<Trash, 'entries' | 'expendable'>;
  readonly devices: Pick<ImageDevices, 'countByVolume'>;
  readonly snapshots: 'reflink' | 'copy';
  /** The sparse file that the pool's filesystem lies in, if it does. */
  readonly backingFile: string | undefined;
  /** Part of the reserve: it goes when the records need it. */
  readonly reserve: Pick<ReservedSpace, 'bytes' | 'hostBytes'>;
}

/** What was there to be seen at a moment. */
export interface Observation extends FilesystemSpace {
  readonly then: SumsThen;
  readonly depth: Depth;
}

/**
 * known: what has changed is looked at, and no image is opened. maps: maps of extents are read as well that operations have
 * made untrue, and now and then of volumes that are written to. exact: those in any case.
 */
export type Depth = 'known' | 'maps' | 'exact';

/** What is on its way out is named after what it was (`Layout.newTrash`). */
const volumeIdLength = 'vol-'.length + 26;

/** Which volumes are no longer in use is looked up so often at most. */
const restIntervalMs = 10_000;
const pauseFactor = 9;

/** Looks at the images of a pool, and knows what it saw: see `VolumeSpace`. */
export class SpaceObserver {
  readonly volumes = new VolumeSpace();
  readonly #sources: SpaceSources;
  readonly #snapshots = new StillSpace();
  readonly #trashed = new StillSpace();
  /** Deleted volumes whose blocks others may share. */
  readonly #onceShared = new Set<VolumeId>();
  /** undefined: nothing was looked at yet. */
  #hadClones: boolean | undefined;
  #restLookedAtMs = Number.NEGATIVE_INFINITY;
  #thoroughDueMs = Number.NEGATIVE_INFINITY;
  #isCountedLate = false;
  #shared: SharedBlocks | undefined;
  #sharedAt: number | undefined;
  #sharedDueMs = Number.NEGATIVE_INFINITY;
  #finding: Promise<void> = Promise.resolve();
  /** How often something that is not written came or went. */
  #revision = 0;

  constructor(sources: SpaceSources) {
    this.#sources = sources;
  }

  /** At the first look, as what is in the trash is known only then. */
  async #begin(): Promise<void> {
    const { devices, index, snapshotIndex, snapshots, trash } = this.#sources;
    const counts = await devices.countByVolume();
    if (this.#hadClones !== undefined) return;
    // What was cloned and is gone leaves no record, and its clones may share blocks: only their maps tell.
    this.#hadClones = snapshots === 'reflink' && hasClones(this.#sources);
    for (const record of index.all()) {
      this.volumes.put(record, this.#hadClones);
      if (counts.has(record.id)) this.volumes.use(record.id);
    }
    for (const { record } of this.#hadClones ? trash.entries() : []) this.#onceShared.add(record.id);
    for (const { id } of snapshotIndex.all()) this.#putSnapshot(id);
    index.onChange = (id, record) => {
      if (record !== undefined) return this.volumes.put(record, this.#mayShare(record));
      if (this.volumes.mayShare(id)) this.#onceShared.add(id);
      this.volumes.delete(id);
    };
    snapshotIndex.onChange = (id, record) => {
      this.#revision++;
      if (record === undefined) this.#snapshots.delete(id);
      else this.#putSnapshot(record.id);
    };
  }

  /** What all images take, each block counted once as far as `findShared` has told; never more than there is. */
  usedBytes({ takenBytes }: FilesystemSpace): bigint {
    const allocated = this.volumes.sums.allocatedBytes + this.#snapshots.allocatedBytes + this.#trashed.allocatedBytes;
    if (this.#sources.snapshots === 'copy') return allocated;
    return larger(0n, smaller(takenBytes, allocated - (this.#shared?.duplicateBytes ?? 0n)));
  }

  /** What would be free without snapshots, likewise. */
  get snapshotBytes(): bigint {
    return this.#shared?.snapshotBytes ?? this.#snapshots.allocatedBytes;
  }

  /** Looks for blocks that several images have, if that may have changed. Takes its time: one look at a time. */
  findShared(): Promise<void> {
    const isIdle = this.volumes.sharing.every((id) => !this.volumes.live.has(id));
    const revision = this.volumes.revision + this.#revision;
    const isKnown = revision === this.#sharedAt && isIdle;
    if (this.#sources.snapshots === 'copy' || isKnown || performance.now() < this.#sharedDueMs) return this.#finding;
    this.#sharedDueMs = Number.POSITIVE_INFINITY;
    this.#finding = this.#findShared(revision);
    return this.#finding;
  }

  async #findShared(revision: number): Promise<void> {
    const { layout } = this.#sources;
    const startedMs = performance.now();
    try {
      const written = [...this.volumes.sharing.map((id) => layout.data(id)), ...this.#trashed.sharingPaths()];
      this.#shared = await findSharedBlocks([
        ...written.map((path): SharingImage => ({ isSnapshot: false, places: this.#places(path) })),
        ...this.#snapshots.sharingPaths().map((path) => ({ isSnapshot: true, places: this.#places(path) })),
      ]);
      this.#sharedAt = revision;
    } finally {
      const endedMs = performance.now();
      this.#sharedDueMs = endedMs + pauseFactor * (endedMs - startedMs);
    }
  }

  async *#places(path: string): AsyncGenerator<readonly Place[], void, void> {
    const { queue } = this.#sources;
    const file = await openReadOnly(queue, path).catch(ignoreMissing);
    if (file === undefined) return;
    await using image = file;
    yield* readPlaces(queue, image);
  }

  get trashedBytes(): bigint {
    return this.#trashed.allocatedBytes;
  }

  /** What the end of something in the trash would give back for certain. */
  givesBytes({ path }: TrashEntry): bigint {
    return this.#trashed.ownedBytes(path);
  }

  /** Something was unlinked. What it shared blocks with may own them now. */
  gone(path: string): void {
    this.#revision++;
    if (this.mayBeShared(path)) this.volumes.outdateMaps();
  }

  /** Whether others may share blocks of what is on its way out. */
  mayBeShared(path: string): boolean {
    if (this.#sources.snapshots === 'copy') return false;
    const id = parseVolumeId(basename(path).slice(0, volumeIdLength));
    return this.#hadClones !== false || id === undefined || this.#onceShared.has(id) || this.volumes.mayShare(id);
  }

  /** Waits until what is unlinked is free. */
  settle(): Promise<void> {
    const { queue, layout } = this.#sources;
    return finishUnlinks(queue, layout.root);
  }

  /** What an image takes that lies in the trash. */
  async lookAt(path: string, record: VolumeRecord): Promise<ImageUse> {
    if (this.#mayShare(record)) return this.#readMap(path, false);
    return { sharedBytes: 0n, allocatedBytes: await this.#allocatedBytes(path) };
  }

  /** What is free is asked last: what is written meanwhile makes the answer smaller, not larger. */
  async look(depth: Depth): Promise<Observation> {
    if (this.#hadClones === undefined) await this.#begin();
    if (depth === 'known') await this.#see(!this.#isCountedLate);
    else await this.#seeAndMap(depth);
    const then = this.volumes.now();
    const filesystem = await this.readFilesystem();
    this.#isCountedLate = filesystem.isCountedLate;
    return { ...filesystem, then, depth };
  }

  /** Who only asks has maps of volumes in use read, and data written back, for a tenth of the time at most. */
  async #seeAndMap(depth: Depth): Promise<void> {
    const startedMs = performance.now();
    const isThorough = depth === 'exact' || startedMs >= this.#thoroughDueMs;
    if (isThorough && this.#isCountedLate) await this.#sync();
    await this.#see(isThorough || !this.#isCountedLate);
    await this.#map(isThorough);
    const endedMs = performance.now();
    if (isThorough) this.#thoroughDueMs = endedMs + pauseFactor * (endedMs - startedMs);
  }

  readFilesystem(): Promise<FilesystemSpace> {
    const { backingFile, reserve, queue, layout } = this.#sources;
    return readFilesystemSpace(queue, { root: layout.root, backingFile, reserve });
  }

  /** @param canRaise whether all that is told to be taken has been taken from what is free */
  async #see(canRaise: boolean): Promise<void> {
    if (canRaise) await this.#rest();
    const { layout, trash } = this.#sources;
    this.#trashed.keepOnly(trash.entries().map((entry) => this.#trashedImage(entry)));
    const volumes = this.volumes.toSee().map(async (id) => {
      const tell = this.volumes.beginLook(id);
      tell(await this.#allocatedBytes(layout.data(id)), canRaise || !this.volumes.live.has(id));
    });
    const still = [this.#snapshots, this.#trashed].flatMap((space) =>
      space.toSee().map(async ({ key, path }) => space.saw(key, await this.#allocatedBytes(path))),
    );
    await Promise.all([...volumes, ...still]);
  }

  /** What has no device any more is not written to. */
  async #rest(): Promise<void> {
    const { devices } = this.#sources;
    if (this.volumes.live.size === 0 || performance.now() - this.#restLookedAtMs < restIntervalMs) return;
    this.#restLookedAtMs = performance.now();
    const live = [...this.volumes.live];
    const counts = await devices.countByVolume();
    for (const [id, since] of live) if (!counts.has(id)) this.volumes.rest(id, since);
  }

  async #map(evenInUse: boolean): Promise<void> {
    const { layout } = this.#sources;
    await Promise.all([
      ...this.volumes.toMap(evenInUse).map(async (id) => {
        const tell = this.volumes.beginMap(id);
        const { allocatedBytes, sharedBytes } = await this.#readMap(layout.data(id), this.volumes.live.has(id));
        tell(sharedBytes);
        this.volumes.saw(id, allocatedBytes, evenInUse || !this.#isCountedLate);
      }),
      ...this.#trashed.toMap(evenInUse).map(async ({ key, path }) => {
        const { allocatedBytes, sharedBytes } = await this.#readMap(path, false);
        this.#trashed.mapped(key, sharedBytes);
        this.#trashed.saw(key, allocatedBytes);
      }),
    ]);
  }

  /**
   * What a volume takes is asked last: what is written anew meanwhile then counts as shared, not as owned.
   *
   * When shared blocks are written, XFS takes more than it writes, for what may be written next, and gives the rest back
   * minutes later (xfs(5), speculative preallocation). The file takes them, but its map does not have them.
   * @param isLive false: nobody will look when they go, so they count as shared
   */
  async #readMap(path: string, isLive: boolean): Promise<ImageUse> {
    const { sharedBytes, unsharedBytes } = await this.#sharing(path);
    const allocatedBytes = await this.#allocatedBytes(path);
    return { allocatedBytes, sharedBytes: isLive ? sharedBytes : larger(sharedBytes, allocatedBytes - unsharedBytes) };
  }

  async #sync(): Promise<void> {
    const { queue, layout } = this.#sources;
    await using root = await openReadOnly(queue, layout.root);
    await syncFilesystem(queue, root);
  }

  #putSnapshot(id: Parameters<Layout['snapshotData']>[0]): void {
    const { layout, snapshots } = this.#sources;
    this.#snapshots.put({ key: id, path: layout.snapshotData(id), mayShare: snapshots === 'reflink' });
  }

  #trashedImage({ path, record }: TrashEntry): StillImage {
    return { key: path, path: join(path, 'data'), mayShare: this.#mayShare(record) };
  }

  /** Whether others may share blocks of a volume that comes, or comes back, or is gone. */
  #mayShare({ id, source }: VolumeRecord): boolean {
    return this.#sources.snapshots === 'reflink' && (source !== undefined || this.#onceShared.has(id));
  }

  #allocatedBytes(path: string): Promise<bigint> {
    return allocatedBytesOf(this.#sources.queue, path);
  }

  /** Of an image that may have been removed by hand, or may be on its way out. */
  async #sharing(path: string): ReturnType<typeof readSharing> {
    try {
      await using image = await openReadOnly(this.#sources.queue, path);
      return await readSharing(this.#sources.queue, image);
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return { sharedBytes: 0n, unsharedBytes: 0n };
      // A filesystem that does not tell: all may be shared.
      if (isErrno(error, 'ENOTSUP', 'ENOTTY')) return { sharedBytes: maximumVolumeBytes, unsharedBytes: 0n };
      throw error;
    }
  }
}

/** Two files share blocks only if one of them was made from the other, or both from a third. */
function hasClones({ index, snapshotIndex, trash }: SpaceSources): boolean {
  if (snapshotIndex.size > 0) return true;
  const records = [...index.all(), ...trash.entries().map(({ record }) => record)];
  return records.some(({ repair, source }) => source !== undefined || repair !== undefined);
}
