import { basename } from 'node:path';
import { holdLoop, listLoops } from '../../kernel/block/loop.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno, KernelError } from '../../kernel/call/errno.ts';
import { type DeviceNumber, sameDevice } from '../../kernel/device.ts';
import { statusOf } from '../../kernel/file/path.ts';
import { isOpenElsewhere, lockExclusively } from '../../kernel/process/lock.ts';
import { NotReadable } from '../sight.ts';
import { filesystemIsToBeMade } from './format.ts';
import { noDevice } from './location.ts';
import { cannotBeMounted } from './mount.ts';
import { isMounted, readMounted, throughReadonly } from './unseen-mount.ts';

/** A device or backing file that is a pool's location, and is not mounted in this mount namespace. */
export interface ClosedLocation {
  readonly poolName: string;
  /** The file or device that its lock is on. */
  readonly source: string;
  readonly type: 'device' | 'file';
  /** The driver's own: whether a format was begun says a file in there. */
  readonly markerDirectory: string;
}

/**
 * Reads the XFS of a device or backing file that is not mounted in this mount namespace: through a mount that is not visible
 * elsewhere and that goes with this process. Nothing is written to the disk.
 *
 * If the filesystem is mounted elsewhere, e.g. by a driver in a container, it is that very filesystem, so the look shows
 * the same as its driver sees. Else it is mounted read-only over a read-only device, with the driver's own lock. The
 * kernel refuses that if the log has to be replayed: the last acknowledged changes are only there, and a look past it
 * (`norecovery`) could miss volumes or show half of a change.
 * @returns undefined if the driver will make a filesystem there
 * @throws HoldfastError what the driver says, if it will not use it; NotReadable
 */
export async function readPrivately<T>(
  queue: DiskQueue,
  location: ClosedLocation,
  read: (root: string) => Promise<T>,
): Promise<T | undefined> {
  const { poolName, source } = location;
  const lock = await lockExclusively(queue, source);
  try {
    await using attached = await deviceOf(queue, location);
    if (attached !== undefined) {
      const isToBeMade = await filesystemIsToBeMade({ ...location, ...attached, queue });
      if (!isToBeMade && (await isMounted(queue, attached.devicePath))) {
        return await readMounted(queue, attached.devicePath, [], read);
      }
      if (isToBeMade && lock !== undefined) return undefined;
    }
    if (lock === undefined)
      throw new NotReadable(`${source} is held by a driver that has not mounted it yet: try again.`);
    return await readAlone(queue, location, read);
  } catch (error) {
    throw error instanceof KernelError && error.syscall.startsWith('fsconfig')
      ? cannotBeMounted({ poolName, source }, error)
      : error;
  } finally {
    await lock?.[Symbol.asyncDispose]();
  }
}

interface Device extends AsyncDisposable {
  readonly devicePath: string;
  readonly device: DeviceNumber;
}

/** The block device that shows the source already: itself, or a loop device over the file. */
async function deviceOf(queue: DiskQueue, { poolName, source, type }: ClosedLocation): Promise<Device | undefined> {
  const { device, inode, represents } = await statusOf(queue, source);
  if (type === 'device') {
    if (represents === undefined) throw noDevice(poolName, source);
    return { devicePath: source, device: represents, [Symbol.asyncDispose]: async () => undefined };
  }
  if (!(await isOpenElsewhere(queue, source))) return undefined;
  for (const loop of await listLoops(queue, (path) => basename(path) === basename(source))) {
    if (!sameDevice(loop.backingDevice, device) || loop.backingInode !== inode) continue;
    const hold = await holdLoop(queue, loop);
    if (hold === undefined) continue;
    return { ...loop, [Symbol.asyncDispose]: () => hold[Symbol.asyncDispose]() };
  }
  return undefined;
}

async function readAlone<T>(
  queue: DiskQueue,
  location: ClosedLocation,
  read: (root: string) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await throughReadonly(queue, location.source, async (loop) => {
      if (location.type === 'file' && (await filesystemIsToBeMade({ ...location, ...loop, queue }))) return undefined;
      return await readMounted(queue, loop.devicePath, [['ro']], read);
    });
  } catch (error) {
    if (!isErrno(error, 'EROFS')) throw error;
    throw new NotReadable(
      `${location.source} was not unmounted in order, by a power cut say: before it can be read its log has to be replayed, and this command writes nothing. Start the driver (holdfast serve), which does that.`,
    );
  }
}
