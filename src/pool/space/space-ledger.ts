import { storedBytes } from '../../volume/encryption.ts';
import { type HoldfastError, OutOfRange, ResourceExhausted } from '../../volume/errors.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import type { VolumeId } from '../../volume/id.ts';
import { formatBytes, larger, smaller } from '../../volume/size.ts';
import type { StorageSpace } from '../backend.ts';
import type { TrashEntry, TrashRef } from '../indexes/trash-entry.ts';
import type { DiskUsage, PoolCapacity } from '../pool.ts';
import {
  chooseToPurge,
  computeCapacity,
  defaultReserveBytes,
  ownedBytes,
  type SpaceUse,
  slackBytes,
  writableBytes,
} from './space.ts';
import { SpaceHolds, type SpaceRequest } from './space-holds.ts';
import {
  type Depth,
  type Observation,
  SpaceObserver,
  type SpaceSources,
  type TrashContents,
} from './space-observer.ts';

/** Fewer are gone in a moment. */
const minFreeBytes = 4n << 20n;

/** Objects that are made meanwhile take a few blocks. */
const toleratedBytes = 1n << 20n;

/** Volumes in use are looked at for each request once the last look at them is older. */
const asideMs = 1_000;

const drainTimeoutMs = 1_000;
const takingTimeoutMs = 2_000;
/** Less than the callers wait. The destruction continues, and a later call finds its space. */
const purgeTimeoutMs = 8_000;

/** The space that the maps of fragmented images may take beside the images, and their writes for a moment. */
const overheadBytes = 16n << 20n;

export interface PurgeableTrash extends TrashContents {
  /** Slow destructions in progress: their space is going to be free. */
  readonly going: readonly TrashRef[];
  /** Resolves when one of those is over; at once if there is none. */
  oneGone(): Promise<void>;
  /** Destroys entries, as their space is needed. */
  purgeEarly(entries: readonly TrashEntry[]): Promise<void>;
  /** Resolves when all destructions are over but those that are slow. */
  drained(): Promise<void>;
}

export interface SpaceOptions extends SpaceSources {
  readonly poolName: string;
  readonly trash: PurgeableTrash;
  readonly reserveBytes: bigint | undefined;
  readonly overcommit: number;
}

/** Space that is held until it is disposed of: once the record of the new object is in its index, or the work has failed. */
export interface HeldSpace extends Disposable {
  /**
   * To be called when sources share their blocks, while that can still be undone: they may have been written to until
   * then, and what they came to own they own no more.
   * @throws ResourceExhausted if there is too little now
   */
  confirm(): Promise<void>;
}

interface Search {
  readonly giveUpAtMs: number;
  /** Others may just take what they hold. */
  readonly isFirst: boolean;
}

/** Held, or available once these are purged. */
type Room =
  | { readonly held: HeldSpace; readonly toPurge?: undefined }
  | { readonly held?: undefined; readonly toPurge: readonly TrashEntry[] };

/** Measures the pool, and holds space for operations under way so that two of them never get the same. */
export class SpaceLedger {
  readonly #options: SpaceOptions;
  readonly #observer: SpaceObserver;
  readonly #holds: SpaceHolds;
  #makingRoom: Promise<unknown> = Promise.resolve();
  /** The last look at all volumes: its beginning, and the slack that it found, less all that was granted since. */
  #seen = { atMs: Number.NEGATIVE_INFINITY, forgottenCount: 0, sharedFreshBytes: 0n, slackBytes: 0n };
  #fullness = { measuredMs: Number.NEGATIVE_INFINITY, isFull: Promise.resolve(false) };

  constructor(options: SpaceOptions) {
    this.#options = options;
    this.#observer = new SpaceObserver(options);
    this.#holds = new SpaceHolds(this.#observer.volumes);
  }

  /** @throws ResourceExhausted (CV20, GC04) */
  async hold(request: SpaceRequest): Promise<HeldSpace> {
    const aside = await this.#holdAside(request);
    return aside ?? this.#tryHold(await this.#lookAtAll('known'), request) ?? this.#makeRoom(request);
  }

  /** Space that is free without making room for it. @returns undefined if it is not */
  async holdSpare(newBytes: bigint): Promise<HeldSpace | undefined> {
    return this.#tryHold(await this.#lookAtAll('known'), { newBytes });
  }

  /**
   * Holds space without a look at the volumes in use, of which there may be hundreds. What their users write and discard
   * changes no slack (space.ts); but where a discard is seen in the free space and not yet in its volume, the slack seems
   * larger than it is. So no more is granted than the last look at all of them had left. @returns undefined if that is not enough
   */
  async #holdAside(request: SpaceRequest): Promise<HeldSpace | undefined> {
    const { sharingIds = [], sourceIds = [] } = request;
    if (sharingIds.length + sourceIds.length > 0) return undefined;
    if (!this.#isFresh) return undefined;
    const look = await this.#observer.lookAside('known');
    const lostBytes = this.#observer.volumes.sharedFreshBytes - this.#seen.sharedFreshBytes;
    const leftBytes = this.#seen.slackBytes - lostBytes;
    if (look === undefined || !this.#isFresh || this.#neededBytes(request) > leftBytes) return undefined;
    return this.#tryHold(look, request);
  }

  /** True if the last look at all volumes is recent, and it is known what they have lost since. */
  get #isFresh(): boolean {
    const { atMs, forgottenCount } = this.#seen;
    return performance.now() - atMs < asideMs && forgottenCount === this.#observer.volumes.forgottenCount;
  }

  async #lookAtAll(depth: Depth): Promise<Observation> {
    const atMs = performance.now();
    const { forgottenCount, sharedFreshBytes } = this.#observer.volumes;
    const look = await this.#observer.look(depth);
    this.#seen = { atMs, forgottenCount, sharedFreshBytes, slackBytes: slackBytes(this.#use(look, 0n)) };
    return look;
  }

  /** Holds what a volume from the trash is going to need. */
  async holdAgain(entry: TrashEntry): Promise<HeldSpace> {
    return this.hold(await this.#requestAgain(entry));
  }

  /** Before that. Nothing is held, nor purged. @throws ResourceExhausted if there is too little also without what may be purged */
  async requireRoomAgain(entry: TrashEntry): Promise<void> {
    const request = await this.#requestAgain(entry);
    await this.#inTurn(async (giveUpAtMs) => {
      await this.#drain();
      const { held } = await this.#findRoom(request, { giveUpAtMs, isFirst: true });
      held?.[Symbol.dispose]();
    });
  }

  /** The blocks that it alone owns it can write over. */
  async #requestAgain(again: TrashEntry): Promise<SpaceRequest> {
    const use = await this.#observer.lookAt(again);
    const wholeBytes = storedBytes(again.record);
    return { newBytes: wholeBytes - ownedBytes(wholeBytes, use), again };
  }

  /** The volume's image is about to be shown by a device, or changed: from now on it is looked at for every figure. */
  willWrite(id: VolumeId): void {
    this.#observer.volumes.use(id);
  }

  /** The volume's image is another one now. */
  hasChanged(id: VolumeId): void {
    this.#observer.volumes.unsee(id);
  }

  /** True if other files may share blocks with the removed one. */
  mayBeShared(ref: TrashRef): boolean {
    return this.#observer.mayBeShared(ref);
  }

  /** Something was destroyed. */
  gone(ref: TrashRef): void {
    this.#observer.gone(ref);
  }

  /** The capacity that can be provisioned, measured as a request would be. */
  async measure(): Promise<PoolCapacity> {
    // A request that needs it would wait for the files being unlinked; a question does not wait long.
    await withTimeout(drainTimeoutMs, this.#options.trash.drained());
    await this.#observer.settle();
    await this.#holds.noteTaken();
    // Discards in volumes in use make the answer too large, for a second at most: no request is granted by it.
    const aside = this.#isFresh ? await this.#observer.lookAside('maps') : undefined;
    return await this.#compute(aside ?? (await this.#lookAtAll('maps')));
  }

  /** The same for metrics and status, with the content of the trash. */
  async survey(): Promise<SpaceSurvey> {
    const observer = this.#observer;
    const look = await observer.look('maps');
    await withTimeout(
      drainTimeoutMs,
      observer.findShared().catch(() => undefined),
    );
    const { ownedBytes: owned, provisionedBytes } = this.#use(look, 0n);
    return {
      capacity: await this.#compute(look),
      disk: {
        diskBytes: look.filesystemBytes,
        freeBytes: look.freeBytes,
        claimableBytes: provisionedBytes - owned,
        snapshotBytes: observer.snapshotBytes,
        ...(look.metadata && { metadata: look.metadata }),
      },
      trashedBytes: observer.trashedBytes,
      allocatedBytes: (id) => this.#observer.volumes.allocatedBytes(id),
    };
  }

  /**
   * True if the disk is nearly full, also of foreign data: half of the space that is never provisioned is used, or only a few
   * MiB are left beside the reserve. Measured once a second at most, for all callers.
   */
  async isNearlyFull(): Promise<boolean> {
    const nowMs = performance.now();
    if (nowMs - this.#fullness.measuredMs > 1_000) {
      const isFull = this.#observer
        .readFilesystem()
        .then((filesystem) => filesystem.isNearlyFull === true || this.#isFull(filesystem, 0n));
      this.#fullness = { measuredMs: nowMs, isFull };
    }
    return this.#fullness.isFull;
  }

  #makeRoom(request: SpaceRequest): Promise<HeldSpace> {
    return this.#inTurn((giveUpAtMs) => this.#holdExactly(request, giveUpAtMs));
  }

  /** One at a time, so that two requests never empty the trash for each other's sake. */
  #inTurn<T>(work: (giveUpAtMs: number) => Promise<T>): Promise<T> {
    const giveUpAtMs = performance.now() + purgeTimeoutMs;
    const turn = this.#makingRoom.then(() => work(giveUpAtMs));
    this.#makingRoom = turn.catch(() => undefined);
    return turn;
  }

  /**
   * The entries that were chosen to be purged are enough: as long as they are on their way, no more is chosen for their space.
   * So the trash is never purged for nothing, however long it takes until the space of destroyed entries is free.
   */
  async #holdExactly(request: SpaceRequest, giveUpAtMs: number): Promise<HeldSpace> {
    await this.#drain();
    for (let isFirst = true; ; isFirst = false) {
      const { held, toPurge } = await this.#findRoom(request, { giveUpAtMs, isFirst });
      if (held !== undefined) return held;
      await this.#options.trash.purgeEarly(toPurge);
      await this.#observer.settle();
    }
  }

  /** The files being unlinked already may be enough. */
  async #drain(): Promise<void> {
    await this.#options.trash.drained();
    await this.#observer.settle();
  }

  /** @throws ResourceExhausted if there would be too little also without what may be purged */
  async #findRoom(request: SpaceRequest, { giveUpAtMs, isFirst: isFirstLook }: Search): Promise<Room> {
    const { trash } = this.#options;
    for (let isFirst = isFirstLook; ; isFirst = false) {
      await this.#holds.noteTaken();
      const look = await this.#lookAtAll('exact');
      const held = this.#tryHold(look, request);
      if (held !== undefined) return { held };
      if (look.obstacle !== undefined) throw look.obstacle;
      // New ones are easily made.
      if (await this.#observer.clearTemplates()) continue;
      if (await this.#isOutOfInodes(look)) throw this.#outOfInodes();
      const needed = this.#missing(look, request);
      const others = isFirst ? this.#holds.ended : undefined;
      if (others !== undefined) {
        // The space that they take just now has counted twice. Some, e.g. a copy, take too long to be waited for.
        await withTimeout(takingTimeoutMs, others);
        continue;
      }
      const goingBytes = await this.#goingBytes();
      if (goingBytes > 0n && goingBytes >= needed) {
        const outcome = await withTimeout(giveUpAtMs - performance.now(), trash.oneGone());
        if (outcome === 'late') throw this.#beingWiped(goingBytes);
        await this.#observer.settle();
        continue;
      }
      const { again } = request;
      if (needed > (await this.#reclaimableBytes(again)) + goingBytes) throw await this.#exhausted(look, request);
      const oldestFirst = (await this.#expendable(again)).reverse();
      const givers = oldestFirst.map((entry) => ({ entry, givesBytes: this.#observer.givesBytes(entry) }));
      const toPurge = look.isOutOfInodes ? oldestFirst.slice(0, 1) : chooseToPurge(givers, needed - goingBytes);
      if (toPurge.length === 0) throw await this.#exhausted(look, request);
      return { toPurge };
    }
  }

  async #goingBytes(): Promise<bigint> {
    const { source, trash } = this.#options;
    const each = await Promise.all(trash.going.map((ref) => source.allocatedBytes(ref)));
    return each.reduce((sum, bytes) => sum + bytes, 0n);
  }

  #beingWiped(goingBytes: bigint): ResourceExhausted {
    return new ResourceExhausted(
      `pool ${this.#options.poolName} has too little space until deleted volumes are wiped (${formatBytes(goingBytes)}): try again later.`,
    );
  }

  /** Nothing waits in here, so two calls at once cannot get the same space. */
  #tryHold(look: Observation, request: SpaceRequest): HeldSpace | undefined {
    if (look.obstacle !== undefined || look.isOutOfInodes || this.#missing(look, request) > 0n) return undefined;
    this.#seen.slackBytes -= this.#neededBytes(request);
    const held = this.#holds.add(request);
    const slack = slackBytes(this.#use(look, 0n));
    return { confirm: () => this.#confirm(slack), [Symbol.dispose]: () => held[Symbol.dispose]() };
  }

  async #confirm(slackThen: bigint): Promise<void> {
    const minSlack = smaller(0n, slackThen) - toleratedBytes;
    for (const depth of ['known', 'exact'] as const) {
      if (slackBytes(this.#use(await this.#observer.look(depth), 0n)) >= minSlack) return;
    }
    throw new ResourceExhausted(
      `pool ${this.#options.poolName} has too little space left for the clone: more was written to its source meanwhile than can be provisioned once more. Delete volumes or give the pool more space.`,
    );
  }

  /** The number of bytes that must become free before the request can be granted, with the trash left as it is. */
  #missing(look: Observation, request: SpaceRequest): bigint {
    const use = this.#use(look, 0n);
    const neededBytes = this.#neededBytes(request);
    const takenBytes = request.provisioning === 'thick' ? request.newBytes : (request.takenBytes ?? 0n);
    // A request for no space is granted also where too much is provisioned already: it makes nothing worse. But only maps
    // tell that it needs none.
    const isFree = neededBytes === 0n && look.depth === 'exact';
    const missing = isFree ? 0n : larger(neededBytes - slackBytes(use), this.#fullBytes(look));
    const unwritable = takenBytes > 0n ? takenBytes - writableBytes(use) : 0n;
    return larger(0n, larger(missing, unwritable));
  }

  #neededBytes({ newBytes, sourceIds = [] }: SpaceRequest): bigint {
    const { volumes } = this.#observer;
    return [...new Set(sourceIds)].reduce((sum, id) => sum + volumes.ownedBytes(id), newBytes);
  }

  /** external-resizer takes RESOURCE_EXHAUSTED for not final: it would ask for this size again and again, and never for the user's smaller one. */
  async #exhausted(look: Observation, request: SpaceRequest): Promise<HoldfastError> {
    const Exhausted = request.isGrowth === true ? OutOfRange : ResourceExhausted;
    if (look.whyFull !== undefined) return new Exhausted(`pool ${this.#options.poolName} ${look.whyFull}`);
    const { availableBytes, thickAvailableBytes } = await this.#compute(look, request.again);
    const needed = this.#neededBytes(request);
    const available = request.provisioning === 'thick' ? thickAvailableBytes : availableBytes;
    return new Exhausted(
      `pool ${this.#options.poolName} cannot provision ${needed} bytes (${formatBytes(needed)}), only ${available} (${formatBytes(available)}): delete volumes or give the pool more space.`,
    );
  }

  /** The trash would give its inodes back. */
  async #isOutOfInodes({ isOutOfInodes }: StorageSpace): Promise<boolean> {
    return isOutOfInodes && (await this.#options.trash.expendable()).length === 0;
  }

  #outOfInodes(): ResourceExhausted {
    return new ResourceExhausted(
      `pool ${this.#options.poolName} can hold no more files: its filesystem has no inodes left. Delete volumes, or other files on it.`,
    );
  }

  #isFull(filesystem: StorageSpace, reclaimableBytes: bigint): boolean {
    return this.#fullBytes(filesystem) > reclaimableBytes;
  }

  /** The number of bytes that must become free before the disk is no longer nearly full. */
  #fullBytes({ filesystemBytes, freeBytes }: StorageSpace): bigint {
    const { isForVolumesAlone, reservedBytes } = this.#options.source;
    if (isForVolumesAlone === true) return 0n;
    const minBytes = larger(minFreeBytes, (this.#reserveBytes(filesystemBytes) - reservedBytes) / 2n);
    return larger(0n, minBytes - (freeBytes - reservedBytes));
  }

  async #compute(look: Observation, again?: TrashEntry): Promise<PoolCapacity> {
    const reclaimableBytes = await this.#reclaimableBytes(again);
    const capacity = computeCapacity(this.#use(look, reclaimableBytes));
    // Overcommitment does not help: bytes that are not there cannot be written.
    const isClosed =
      look.obstacle !== undefined || (await this.#isOutOfInodes(look)) || this.#isFull(look, reclaimableBytes);
    return isClosed ? { ...capacity, availableBytes: 0n, thickAvailableBytes: 0n } : capacity;
  }

  async #reclaimableBytes(again?: TrashEntry): Promise<bigint> {
    const expendable = await this.#expendable(again);
    return expendable.reduce((sum, entry) => sum + this.#observer.givesBytes(entry), 0n);
  }

  /** @param again the entry that will be restored, and is no room for that */
  async #expendable(again: TrashEntry | undefined): Promise<TrashEntry[]> {
    return (await this.#options.trash.expendable()).filter((entry) => entry !== again);
  }

  #use(look: Observation, reclaimableBytes: bigint): SpaceUse {
    const { volumes } = this.#observer;
    return {
      filesystemBytes: look.filesystemBytes,
      freeBytes: look.freeBytes,
      reserveBytes: this.#reserveBytes(look.filesystemBytes),
      overcommit: this.#options.source.overcommit ?? this.#options.overcommit,
      provisionedBytes: volumes.sums.provisionedBytes,
      ownedBytes: volumes.ownedSince(look.then),
      usedBytes: this.#observer.usedBytes(look),
      reclaimableBytes,
      heldBytes: volumes.heldSince(look.then),
    };
  }

  /** No volume can write to the reserve, and the filesystem needs a part of it to note where blocks lie. */
  #reserveBytes(filesystemBytes: bigint): bigint {
    const { reserveBytes = defaultReserveBytes(filesystemBytes), source } = this.#options;
    if (source.isForVolumesAlone === true) return 0n;
    return larger(reserveBytes, source.reservedBytes + overheadBytes);
  }
}

export interface SpaceSurvey {
  readonly capacity: PoolCapacity;
  readonly disk: DiskUsage;
  readonly trashedBytes: bigint;
  readonly allocatedBytes: (id: VolumeId) => bigint;
}
