import { deviceSizeBytes } from '../../kernel/block/block.ts';
import { refreshLoopSize } from '../../kernel/block/loop.ts';
import { loopNumber } from '../../kernel/block/loop-sysfs.ts';
import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import type { DeviceNumber } from '../../kernel/device.ts';
import { resizeFile, syncFile } from '../../kernel/file/file.ts';
import { statusOf } from '../../kernel/file/path.ts';
import { growMounted } from '../../kernel/mount/grow.ts';
import { step } from '../../volume/step.ts';
import type { Freezes } from '../freeze/freezes.ts';

/** Where the filesystem of a location is mounted, and the device that it is on. */
export interface GrowingLocation {
  readonly freezes: Freezes;
  readonly queue: DiskQueue;
  readonly root: string;
  readonly devicePath: string;
}

/** Makes a mounted location as large as its device has become. It never shrinks. @returns how large that is */
async function growToDevice({ devicePath, freezes, queue, root }: GrowingLocation): Promise<bigint> {
  const deviceBytes = await deviceSizeBytes(queue, devicePath);
  const settle = (directory: Descriptor) => freezes.briefly(queue, 'pool', directory);
  const name = `the pool at ${root}`;
  await step('open/grow', () =>
    growMounted(queue, { fsType: 'xfs', directory: root, devicePath, deviceBytes, settle, name }),
  );
  return deviceBytes;
}

/** The sparse file of a location, the loop device that shows it, and its wanted size. */
export interface GrowingFile {
  readonly path: string;
  readonly device: DeviceNumber;
  readonly wantedBytes: bigint;
}

/**
 * A larger size in the configuration takes effect at the next start. It never shrinks. File, device and filesystem are
 * looked at separately: a crash may have come after any of them had grown.
 */
export async function growToFile(location: GrowingLocation, file: GrowingFile): Promise<void> {
  const { devicePath, queue } = location;
  if ((await statusOf(queue, file.path)).sizeBytes < file.wantedBytes) {
    await step('open/extend', async () => {
      await resizeFile(queue, file.path, file.wantedBytes);
      await syncFile(queue, file.path);
    });
  }
  const number = loopNumber(file.device);
  if (
    number !== undefined &&
    (await deviceSizeBytes(queue, devicePath)) !== (await statusOf(queue, file.path)).sizeBytes
  ) {
    await step('open/resize', () => refreshLoopSize(queue, number));
  }
  await growToDevice(location);
}

/** Sees that a disk has been enlarged while the pool on it is open, and lets the filesystem follow. */
export class DiskFollower {
  readonly #location: GrowingLocation;
  /** The size of the disk that the filesystem has followed so far. */
  #knownBytes = 0n;
  #growing: Promise<void> | undefined;

  constructor(location: GrowingLocation) {
    this.#location = location;
  }

  /** One look at a time: calls meanwhile wait for the same. */
  look(): Promise<void> {
    this.#growing ??= this.#look().finally(() => {
      this.#growing = undefined;
    });
    return this.#growing;
  }

  /** Waits until nothing is in progress any more, well or not. */
  async rest(): Promise<void> {
    await Promise.allSettled([this.#growing]);
  }

  async #look(): Promise<void> {
    const { devicePath, queue } = this.#location;
    if ((await deviceSizeBytes(queue, devicePath)) > this.#knownBytes)
      this.#knownBytes = await growToDevice(this.#location);
  }
}
