import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isErrno } from '../../kernel/errno.ts';
import type { Lane } from '../../kernel/lane.ts';
import { ResourceExhausted } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { Provisioning } from '../../volume/record.ts';
import { formatBytes, larger, smaller } from '../../volume/size.ts';
import type { PoolCapacity } from '../pool.ts';
import type { Ballast } from './ballast.ts';
import { type FilesystemSpace, readFilesystemSpace, statBlockBytes } from './filesystem-space.ts';
import type { Layout } from './layout.ts';
import type { RecordIndex } from './record-index.ts';
import type { SnapshotIndex } from './snapshot-index.ts';
import { computeCapacity, defaultReserveBytes, sharingVolumes } from './space.ts';
import type { Trash } from './trash.ts';

/** Fewer are gone in a moment. */
const leastFreeBytes = 4n << 20n;

export interface SpaceOptions {
  readonly poolName: string;
  readonly lane: Lane;
  readonly layout: Layout;
  readonly index: RecordIndex;
  readonly snapshotIndex: SnapshotIndex;
  readonly trash: Pick<Trash, 'entries' | 'expendable' | 'purgeOldest'>;
  /** The sparse file that the pool's filesystem lies in, if it does. */
  readonly backingFile: string | undefined;
  readonly reserveBytes: bigint | undefined;
  readonly overcommit: number;
  /** Part of the reserve: it goes when the records need it. */
  readonly ballast: Pick<Ballast, 'bytes' | 'hostBytes'>;
}

/** Measures the pool, and holds space for volumes that are being made so that two of them never get the same. */
export class SpaceLedger {
  readonly #options: SpaceOptions;
  #reservedBytes = 0n;
  #fullness = { measuredMs: Number.NEGATIVE_INFINITY, isFull: Promise.resolve(false) };

  constructor(options: SpaceOptions) {
    this.#options = options;
  }

  /**
   * Holds space until disposed of. Dispose after the volume's record is in the index (or the work has failed).
   * @param provisioning thick: the blocks are taken at once, so they must be there, whatever may be promised
   * @throws ResourceExhausted (CV20, GC04)
   */
  reserve(sizeBytes: bigint, provisioning: Provisioning): Promise<Disposable> {
    return this.#hold({ newBytes: sizeBytes, provisioning, sourceIds: [] });
  }

  /**
   * Holds the space of a new volume or snapshot, and what its sources may come to need when their blocks are shared:
   * what they have written they may write again. Those that share already have been counted.
   */
  reserveSharing(
    sourceIds: readonly VolumeId[],
    newBytes: bigint,
    provisioning: Provisioning = 'thin',
  ): Promise<Disposable> {
    return this.#hold({ newBytes, provisioning, sourceIds });
  }

  async #hold(request: SpaceRequest): Promise<Disposable> {
    // Mostly there is room even if nothing had been written yet: then no image needs to be looked at.
    const filesystem = await this.#observeFilesystem();
    const held = this.#tryHold({ ...filesystem, allocatedBytes: nothingKnown, reclaimableBytes: 0n }, request);
    if (held !== undefined) return held;
    for (;;) {
      const observation = await this.#observe();
      if (this.#isOutOfInodes(observation)) throw this.#outOfInodes();
      const exactly = this.#tryHold({ ...observation, reclaimableBytes: 0n }, request);
      if (exactly !== undefined) return exactly;
      const availableBytes = this.#availableFor(request.provisioning, observation);
      const sizeBytes = this.#sizeOf(observation, request);
      if (sizeBytes > availableBytes) throw this.#exhausted(sizeBytes, availableBytes);
      await this.#options.trash.purgeOldest();
    }
  }

  /** Nothing waits in here, so two calls at once cannot be promised the same space. */
  #tryHold(observation: Observation, request: SpaceRequest): Disposable | undefined {
    if (observation.isOutOfInodes) return undefined;
    const sizeBytes = this.#sizeOf(observation, request);
    if (sizeBytes > this.#availableFor(request.provisioning, observation)) return undefined;
    this.#reservedBytes += sizeBytes;
    return {
      [Symbol.dispose]: () => {
        this.#reservedBytes -= sizeBytes;
      },
    };
  }

  /** Of a source that was not looked at, all may be written. */
  #sizeOf({ allocatedBytes }: Observation, { newBytes, sourceIds }: SpaceRequest): bigint {
    const { index } = this.#options;
    const sharing = this.#sharing();
    const sources = sourceIds.filter((id) => !sharing.has(id));
    return sources.reduce((sum, id) => sum + (allocatedBytes.get(id) ?? index.get(id)?.sizeBytes ?? 0n), newBytes);
  }

  #availableFor(provisioning: Provisioning, observation: Observation): bigint {
    const { availableBytes } = this.#compute(observation);
    if (provisioning === 'thin') return availableBytes;
    const { freeBytes, reclaimableBytes } = observation;
    const writableBytes = freeBytes + reclaimableBytes - this.#reserveBytes(observation) - this.#reservedBytes;
    return larger(0n, smaller(availableBytes, writableBytes));
  }

  #exhausted(sizeBytes: bigint, availableBytes: bigint): ResourceExhausted {
    return new ResourceExhausted(
      `pool ${this.#options.poolName} cannot promise ${sizeBytes} bytes (${formatBytes(sizeBytes)}), only ${availableBytes} (${formatBytes(availableBytes)}): delete volumes or give the pool more space.`,
    );
  }

  /** What lies in the trash gives its inodes back. */
  #isOutOfInodes({ isOutOfInodes }: FilesystemSpace): boolean {
    return isOutOfInodes && this.#options.trash.expendable().length === 0;
  }

  #outOfInodes(): ResourceExhausted {
    return new ResourceExhausted(
      `pool ${this.#options.poolName} can hold no more files: its filesystem has no inodes left. Delete volumes, or other files on it.`,
    );
  }

  async measure(): Promise<PoolCapacity> {
    return (await this.measureVolumes()).capacity;
  }

  /** The same, with what each volume's data takes on disk. */
  async measureVolumes(): Promise<VolumesMeasured> {
    const observation = await this.#observe();
    return { capacity: this.#compute(observation), allocatedBytes: observation.allocatedBytes };
  }

  /**
   * Whether the disk is nearly full, whoever filled it: half of what is never promised is gone, or only a few MiB are
   * left beside the ballast. Measured once a second at most, whoever asks.
   */
  async isNearlyFull(): Promise<boolean> {
    const nowMs = performance.now();
    if (nowMs - this.#fullness.measuredMs > 1_000) {
      this.#fullness = { measuredMs: nowMs, isFull: this.#observeFilesystem().then((use) => this.#isFull(use)) };
    }
    return this.#fullness.isFull;
  }

  #isFull(filesystem: FilesystemSpace): boolean {
    const ballastBytes = this.#options.ballast.bytes;
    const reserveBytes = this.#reserveBytes({ ...filesystem, allocatedBytes: nothingKnown, reclaimableBytes: 0n });
    return filesystem.freeBytes - ballastBytes < larger(leastFreeBytes, (reserveBytes - ballastBytes) / 2n);
  }

  #compute(observation: Observation): PoolCapacity {
    const { index, overcommit } = this.#options;
    const sharing = this.#sharing();
    const volumes = Array.from(index.all(), ({ id, sizeBytes }) => ({
      sizeBytes,
      isSharing: sharing.has(id),
      // Made since we looked: as if nothing of it were written, so never too optimistic.
      allocatedBytes: smaller(sizeBytes, observation.allocatedBytes.get(id) ?? 0n),
    }));
    const reserveBytes = this.#reserveBytes(observation);
    const use = { ...observation, reserveBytes, overcommit, volumes, reservedBytes: this.#reservedBytes };
    const capacity = computeCapacity(use);
    // However often it may be promised, what is not there cannot be written.
    const freeBytes = observation.freeBytes + observation.reclaimableBytes;
    const isFull = this.#isOutOfInodes(observation) || this.#isFull({ ...observation, freeBytes });
    return isFull ? { ...capacity, availableBytes: 0n } : capacity;
  }

  #reserveBytes({ filesystemBytes }: Observation): bigint {
    return this.#options.reserveBytes ?? defaultReserveBytes(filesystemBytes);
  }

  #sharing(): ReadonlySet<VolumeId> {
    const { index, snapshotIndex, trash } = this.#options;
    // A volume shares with its clones, and with what it was before a repair, until those are out of the trash, too.
    const volumes = [...index.all(), ...trash.entries().map(({ record }) => record)];
    return sharingVolumes(volumes, snapshotIndex.all());
  }

  /** The images first: what is written meanwhile then makes the answer smaller, not larger. */
  async #observe(): Promise<Observation> {
    const images = await this.#observeImages();
    return { ...images, ...(await this.#observeFilesystem()) };
  }

  #observeFilesystem(): Promise<FilesystemSpace> {
    const { backingFile, ballast, lane, layout } = this.#options;
    return readFilesystemSpace(lane, { root: layout.root, backingFile, ballast });
  }

  async #observeImages(): Promise<Pick<Observation, 'allocatedBytes' | 'reclaimableBytes'>> {
    const { index, lane, layout, trash } = this.#options;
    const allocatedBytes = new Map<VolumeId, bigint>();
    const volumes = Array.from(index.all(), async ({ id }) => {
      allocatedBytes.set(id, await allocatedBytesOf(lane, layout.data(id)));
    });
    const sharing = this.#sharing();
    const trashed = trash
      .expendable()
      // What it shares with a snapshot or clone stays when it goes.
      .filter(({ record }) => record.source === undefined && !sharing.has(record.id))
      .map(({ path }) => allocatedBytesOf(lane, join(path, 'data')));
    await Promise.all(volumes);
    const reclaimableBytes = (await Promise.all(trashed)).reduce((sum, bytes) => sum + bytes, 0n);
    return { allocatedBytes, reclaimableBytes };
  }
}

export interface VolumesMeasured {
  readonly capacity: PoolCapacity;
  readonly allocatedBytes: ReadonlyMap<VolumeId, bigint>;
}

/** What a new volume or snapshot is going to need. */
interface SpaceRequest {
  readonly newBytes: bigint;
  readonly provisioning: Provisioning;
  readonly sourceIds: readonly VolumeId[];
}

const nothingKnown: ReadonlyMap<VolumeId, bigint> = new Map();

interface Observation extends FilesystemSpace {
  readonly allocatedBytes: ReadonlyMap<VolumeId, bigint>;
  readonly reclaimableBytes: bigint;
}

async function allocatedBytesOf(lane: Lane, path: string): Promise<bigint> {
  try {
    return (await lane.run(() => stat(path, { bigint: true }))).blocks * statBlockBytes;
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return 0n;
    throw error;
  }
}
