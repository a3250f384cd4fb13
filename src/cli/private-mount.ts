import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { sameDevice } from '../kernel/device.ts';
import { isErrno } from '../kernel/errno.ts';
import type { Lane } from '../kernel/lane.ts';
import { isOpenElsewhere, lockExclusively } from '../kernel/lock.ts';
import { attachLoop, holdLoop, type LoopDevice, listLoops } from '../kernel/loop.ts';
import { isAttached } from '../kernel/loop-sight.ts';
import { type MountAttributes, type MountParameter, mountDetached } from '../kernel/mount.ts';
import { statusOf } from '../kernel/path.ts';

/** The pool's filesystem cannot be read without writing to its disk, or not now. The message is for the operator. */
export class NotReadable extends Error {}

/**
 * Reads the XFS of a device or backing file that is not mounted in this mount namespace: through a mount that nobody else
 * sees and that goes with this process. Nothing is written to the disk.
 *
 * If the filesystem is mounted elsewhere, by a driver in a container say, it is that very filesystem, so what is read is
 * what its driver sees. Else it is mounted read-only over a read-only device, with the driver's own lock. That the
 * kernel refuses if the log has to be replayed: what was acknowledged last is only there, and a look past it
 * (`norecovery`) could miss volumes or show half of a change.
 * @throws NotReadable
 */
export async function readPrivately<T>(lane: Lane, source: string, read: (root: string) => Promise<T>): Promise<T> {
  const lock = await lockExclusively(lane, source);
  try {
    const shared = await readShared(lane, source, read);
    if (shared !== undefined) return shared.result;
    if (lock === undefined) {
      throw new NotReadable(`${source} is held by a driver that has not mounted it yet: try again.`);
    }
    return await readAlone(lane, source, read);
  } finally {
    await lock?.[Symbol.asyncDispose]();
  }
}

const attributes: MountAttributes = { readonly: true, nosuid: true, nodev: true, noexec: true, atime: 'noatime' };

async function readShared<T>(
  lane: Lane,
  source: string,
  read: (root: string) => Promise<T>,
): Promise<{ readonly result: T } | undefined> {
  const device = await deviceOf(lane, source);
  if (device === undefined) return undefined;
  await using _hold = device;
  if (!(await isMounted(lane, device.path))) return undefined;
  return { result: await readMounted(lane, device.path, [], read) };
}

/** The block device that shows the source already: itself, or a loop device over the file. */
async function deviceOf(
  lane: Lane,
  source: string,
): Promise<({ readonly path: string } & AsyncDisposable) | undefined> {
  const status = await statusOf(lane, source);
  if (status.kind === 'block') return { path: source, [Symbol.asyncDispose]: async () => undefined };
  if (!(await isOpenElsewhere(lane, source))) return undefined;
  for (const loop of await listLoops(lane, (path) => basename(path) === basename(source))) {
    if (!sameDevice(loop.backingDevice, status.device) || loop.backingInode !== status.inode) continue;
    const hold = await holdLoop(lane, loop);
    if (hold !== undefined) return { path: loop.devicePath, [Symbol.asyncDispose]: () => hold[Symbol.asyncDispose]() };
  }
  return undefined;
}

/**
 * Whether the device's filesystem is mounted, in whatever mount namespace: then the kernel refuses to mount it read-only,
 * as a filesystem is one or the other for all its mounts.
 */
async function isMounted(lane: Lane, devicePath: string): Promise<boolean> {
  try {
    const mount = await mountDetached(lane, { fsType: 'xfs', source: devicePath, parameters: passive, attributes });
    await mount[Symbol.asyncDispose]();
    return false;
  } catch (error) {
    if (isErrno(error, 'EBUSY')) return true;
    throw error;
  }
}

/** Writes nothing, not even what the log has. */
const passive: readonly MountParameter[] = [['ro'], ['norecovery']];

async function readAlone<T>(lane: Lane, source: string, read: (root: string) => Promise<T>): Promise<T> {
  const loop = await attachLoop(lane, {
    backing: source,
    label: 'holdfast look',
    readonly: true,
    autoclear: true,
    blockSizeBytes: 512,
  });
  try {
    return await readMounted(lane, loop.devicePath, [['ro']], read);
  } catch (error) {
    if (!isErrno(error, 'EROFS')) throw error;
    throw new NotReadable(
      `${source} was not unmounted in order, by a power cut say: before it can be read its log has to be replayed, and this command writes nothing. Start the driver (holdfast serve), which does that.`,
    );
  } finally {
    await detached(loop);
  }
}

async function readMounted<T>(
  lane: Lane,
  devicePath: string,
  parameters: readonly MountParameter[],
  read: (root: string) => Promise<T>,
): Promise<T> {
  await using mount = await mountDetached(lane, { fsType: 'xfs', source: devicePath, parameters, attributes });
  return await mount.during(read);
}

const detachPatienceMs = 2_000;
const pauseMs = 5;

/** Before the lock goes: a driver that comes now must not find a device that can only be read. */
async function detached({ descriptor, number }: LoopDevice): Promise<void> {
  await descriptor[Symbol.asyncDispose]();
  const giveUpAt = performance.now() + detachPatienceMs;
  while (isAttached(number) && performance.now() < giveUpAt) await delay(pauseMs);
}
