import { deviceSizeBytes } from '../../kernel/block/block.ts';
import type { DeviceNumber } from '../../kernel/block/device.ts';
import { refreshLoopSize } from '../../kernel/block/loop.ts';
import { loopNumber } from '../../kernel/block/loop-sysfs.ts';
import type { Lane } from '../../kernel/call/disk-queue.ts';
import { resizeFile, syncFile } from '../../kernel/file/file.ts';
import { statusOf } from '../../kernel/file/path.ts';
import { growMounted } from '../../kernel/mount/grow.ts';
import { step } from '../../volume/step.ts';

/** Where the filesystem of a home is mounted, and the device that it is on. */
export interface GrowingHome {
  readonly lane: Lane;
  readonly root: string;
  readonly devicePath: string;
}

/** Makes a mounted home as large as its device has become. It never shrinks. @returns how large that is */
async function growToDevice({ devicePath, lane, root }: GrowingHome): Promise<bigint> {
  const deviceBytes = await deviceSizeBytes(lane, devicePath);
  await step('open/grow', () => growMounted(lane, { fsType: 'xfs', directory: root, devicePath, deviceBytes }));
  return deviceBytes;
}

/** The sparse file that a home is in, the loop device that shows it, and how large it is to be. */
export interface GrowingFile {
  readonly path: string;
  readonly device: DeviceNumber;
  readonly wantedBytes: bigint;
}

/**
 * A larger size in the configuration takes effect at the next start. It never shrinks. File, device and filesystem are
 * each looked at by themselves: a crash may have come after any of them had grown.
 */
export async function growToFile(home: GrowingHome, file: GrowingFile): Promise<void> {
  const { devicePath, lane } = home;
  if ((await statusOf(lane, file.path)).sizeBytes < file.wantedBytes) {
    await step('open/extend', async () => {
      await resizeFile(lane, file.path, file.wantedBytes);
      await syncFile(lane, file.path);
    });
  }
  const number = loopNumber(file.device);
  if (
    number !== undefined &&
    (await deviceSizeBytes(lane, devicePath)) !== (await statusOf(lane, file.path)).sizeBytes
  ) {
    await step('open/resize', () => refreshLoopSize(lane, number));
  }
  await growToDevice(home);
}

/** Sees that a disk has been enlarged while the pool on it is open, and lets the filesystem follow. */
export class DiskFollower {
  readonly #home: GrowingHome;
  /** The size of the disk that the filesystem has followed so far. */
  #knownBytes = 0n;
  #growing: Promise<void> | undefined;

  constructor(home: GrowingHome) {
    this.#home = home;
  }

  /** One look at a time: who comes meanwhile waits for the same. */
  look(): Promise<void> {
    this.#growing ??= this.#look().finally(() => {
      this.#growing = undefined;
    });
    return this.#growing;
  }

  /** Until nothing is at work any more, well or not. */
  async rest(): Promise<void> {
    await Promise.allSettled([this.#growing]);
  }

  async #look(): Promise<void> {
    const { devicePath, lane } = this.#home;
    if ((await deviceSizeBytes(lane, devicePath)) > this.#knownBytes) this.#knownBytes = await growToDevice(this.#home);
  }
}
