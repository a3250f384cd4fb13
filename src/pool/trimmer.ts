import { statfs } from 'node:fs/promises';
import { treeReserveBytes } from '../filesystems/xfs-reserve.ts';
import type { Descriptor } from '../kernel/call/descriptor.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { isErrno } from '../kernel/call/errno.ts';
import { syncFilesystem, trimRange } from '../kernel/file/filesystem.ts';
import { readXfs, readXfsSpareBlocks } from '../kernel/file/xfs.ts';
import { readMountTable } from '../kernel/mount/mount-table.ts';
import type { FilesystemType } from '../volume/filesystem.ts';
import type { VolumeId } from '../volume/id.ts';
import type { VolumeRecord } from '../volume/record.ts';
import { larger } from '../volume/size.ts';
import type { Attacher } from './backend.ts';
import { trimmed } from './events.ts';
import { openMounted } from './freeze/mounted.ts';
import type { TrimOptions } from './pool.ts';

export interface TrimParts {
  readonly name: string;
  readonly queue: DiskQueue;
  readonly attacher: Pick<Attacher, 'attached'>;
  /** The space that the volume's data takes of its pool. */
  takenBytes(id: VolumeId): Promise<bigint>;
}

/** Small enough that a disk does it in a moment, and whole block groups of ext4, which remembers only those. */
const sliceBytes = 1n << 30n;

/** A log or journal of the usual size, of which no statfs(2) says that it is used. */
const usualLogBytes = 64n << 20n;
const worthwhileBytes = 16n << 20n;

/** The space that a filesystem takes of its device. */
export interface FilesystemUse {
  /** By the count of statfs(2). */
  readonly usedBytes: bigint;
  /** The part of that which is only set aside, and was never written. */
  readonly reservedBytes: bigint;
  readonly logBytes: bigint;
}

/** True if enough would be given back to be worth the work. All of the log may have been written by now. */
export function isWorthTrimming(takenBytes: bigint, { logBytes, reservedBytes, usedBytes }: FilesystemUse): boolean {
  return takenBytes - (usedBytes - reservedBytes) - larger(logBytes, usualLogBytes) >= worthwhileBytes;
}

const nothingUsed: FilesystemUse = { usedBytes: 0n, reservedBytes: 0n, logBytes: 0n };

/** Gives space that mounted filesystems have freed back to the pool (FITRIM). Of thick volumes it is kept. */
export class FilesystemTrimmer {
  readonly #parts: TrimParts;

  constructor(parts: TrimParts) {
    this.#parts = parts;
  }

  async trim(record: VolumeRecord, { budgetMs, fromBytes }: TrimOptions): Promise<bigint | undefined> {
    const { queue, name } = this.#parts;
    const untilMs = performance.now() + budgetMs;
    if (record.provisioning !== 'thin' || record.content.type !== 'mount') return undefined;
    const takenBytes = await this.#parts.takenBytes(record.id);
    if (!isWorthTrimming(takenBytes, nothingUsed)) return undefined;
    await using directory = await this.#openWritable(record.id);
    if (directory === undefined) return undefined;
    if (fromBytes === 0n) {
      // Data deleted a moment ago is free only when that is committed. btrfs does not even count it before, and XFS
      // frees in the background, to which statfs(2) gives a push.
      if (record.content.fsType === 'xfs') await this.#usedBytes(directory);
      if (record.content.fsType !== 'ext4') await syncFilesystem(queue, directory);
      if (!isWorthTrimming(takenBytes, await this.#use(directory, record.content.fsType))) {
        // The mount keeps what it shows open, so this waits for nothing.
        directory.closeNow();
        return undefined;
      }
      await syncFilesystem(queue, directory);
    }
    const next = await this.#trimSlices(directory, record, { fromBytes, untilMs });
    const givenBackBytes = takenBytes - (await this.#parts.takenBytes(record.id));
    // Pods write meanwhile.
    if (givenBackBytes > 0n) trimmed.publish({ pool: name, bytes: givenBackBytes });
    return next;
  }

  async #trimSlices(
    directory: Descriptor,
    { sizeBytes }: VolumeRecord,
    { fromBytes, untilMs }: { readonly fromBytes: bigint; readonly untilMs: number },
  ): Promise<bigint | undefined> {
    for (let startBytes = fromBytes; startBytes < sizeBytes; startBytes += sliceBytes) {
      if (startBytes > fromBytes && performance.now() >= untilMs) return startBytes;
      // btrfs counts in its own addresses, which may lie beyond the end of the device.
      const isLast = startBytes + sliceBytes >= sizeBytes;
      try {
        await trimRange(this.#parts.queue, directory, startBytes, isLast ? undefined : sliceBytes);
      } catch (error) {
        // The filesystem is smaller than its device.
        if (startBytes > 0n && isErrno(error, 'EINVAL')) return undefined;
        throw error;
      }
    }
    return undefined;
  }

  /** A filesystem that turned read-only may have wrong data about its free blocks. */
  async #openWritable(id: VolumeId): Promise<Descriptor | undefined> {
    const { attacher, queue } = this.#parts;
    const [attached, table] = await Promise.all([attacher.attached(id), readMountTable(queue)]);
    const device = attached.find((each) => each.kind === 'device' && !each.readonly);
    if (device?.kind !== 'device') return undefined;
    const writable = table.filter(({ superOptions }) => !superOptions.includes('ro'));
    return openMounted(queue, writable, device);
  }

  async #use(directory: Descriptor, fsType: FilesystemType): Promise<FilesystemUse> {
    const { queue } = this.#parts;
    const usedBytes = await this.#usedBytes(directory);
    if (fsType !== 'xfs') return { ...nothingUsed, usedBytes };
    const [xfs, spareBlocks] = await Promise.all([readXfs(queue, directory), readXfsSpareBlocks(queue, directory)]);
    const blockBytes = BigInt(xfs.blockBytes);
    return {
      usedBytes,
      reservedBytes: spareBlocks * blockBytes + treeReserveBytes(xfs),
      logBytes: BigInt(xfs.logBlocks) * blockBytes,
    };
  }

  async #usedBytes(directory: Descriptor): Promise<bigint> {
    const { bfree, blocks, bsize } = await this.#parts.queue.run(() =>
      directory.during((path) => statfs(path, { bigint: true })),
    );
    return (blocks - bfree) * bsize;
  }
}
