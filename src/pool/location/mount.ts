import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type DeviceNumber, sameDevice } from '../../kernel/block/device.ts';
import { diskFaultOf } from '../../kernel/block/disk-fault.ts';
import { attachLoop, holdLoop, listLoops } from '../../kernel/block/loop.ts';
import type { Lane } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno, KernelError } from '../../kernel/call/errno.ts';
import { isOpenElsewhere } from '../../kernel/file/lock.ts';
import { type FileStatus, openDirectory, statusOf } from '../../kernel/file/path.ts';
import { thaw } from '../../kernel/mount/freeze.ts';
import { mountFilesystem, unmount } from '../../kernel/mount/mount.ts';
import { DataLoss, FailedPrecondition } from '../../volume/errors.ts';
import { step } from '../../volume/step.ts';
import { detachFromDead } from '../kinds/image/devices-by-path.ts';
import { Layout } from '../records/layout.ts';
import { ensureFilesystem } from './format.ts';
import { writeHealthFile } from './health-file.ts';
import type { Ballast } from './reserved-space.ts';

export interface HomeMount {
  readonly lane: Lane;
  readonly poolName: string;
  /** The block device or the backing file, locked by the caller. */
  readonly source: string;
  /** An existing directory of the driver's own. */
  readonly root: string;
  /** Whether the source is a backing file. */
  readonly isFile: boolean;
  /** Room on the host of a backing file. */
  readonly hostBallast: Ballast | undefined;
}

/** The device that shows the source. */
export interface MountedDevice {
  readonly devicePath: string;
  readonly device: DeviceNumber;
}

/** Held open, so that it cannot go before it is mounted. */
interface SourceDevice extends MountedDevice, AsyncDisposable {}

/**
 * Sees to it that the source's filesystem is mounted at the root: made first if, and only if, the source is blank. Whose
 * it is, is not known yet, so nothing else about it is changed.
 */
export async function mountHome(home: HomeMount): Promise<MountedDevice> {
  const { root } = home;
  const status = await usableMount(home);
  await using attached = await findDevice(home);
  if (status !== undefined) {
    if (!isOn(status, attached)) throw foreignMount(home);
    return attached;
  }
  await using device = attached ?? (await attachFile(home));
  await ensureFilesystem({ ...home, ...device, markerDirectory: dirname(root) });
  await step('open/mount', () => mountSource(home, device.devicePath));
  return device;
}

function isOn(status: FileStatus, device: SourceDevice | undefined): device is SourceDevice {
  return device !== undefined && sameDevice(status.device, device.device);
}

function foreignMount({ poolName, root }: HomeMount): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: something else is mounted at ${root}, which is the pool's own place. Unmount it.`,
  );
}

/**
 * Whether what is mounted at the root is alive, and not the pool's: then it is left alone. No pool of ours is without its
 * file for longer than a moment of its first start.
 */
async function isForeign(home: HomeMount, status: FileStatus): Promise<boolean> {
  const { lane, root } = home;
  try {
    await lane.run(() => stat(new Layout(root).poolFile));
    return false;
  } catch (error) {
    ignoreMissing(error);
  }
  await using attached = await findDevice(home);
  return !isOn(status, attached);
}

/** Unmounts the pool's filesystem. In use by volumes: it stays, and the next start finds it. */
export async function unmountHome(lane: Lane, root: string): Promise<void> {
  try {
    await unmount(lane, root);
  } catch (error) {
    if (!isErrno(error, 'EBUSY', 'EINVAL')) throw error;
  }
}

/** What is mounted at the root; undefined if nothing is, or was until now: a filesystem that is dead is of no use. */
async function usableMount(home: HomeMount): Promise<FileStatus | undefined> {
  const { lane, poolName, root } = home;
  try {
    const status = await statusOf(lane, root);
    if (!status.isMountRoot) return undefined;
    if (await isForeign(home, status)) throw foreignMount(home);
    // A driver that was killed while it grew left it frozen: then whoever writes waits for ever.
    await step('open/thaw', () => thaw(lane, root));
    await writeHealthFile(lane, root);
    return status;
  } catch (error) {
    const sickness = diskFaultOf(error);
    if (sickness === undefined) throw error;
    await detachFromDead(lane);
    await unmount(lane, root).catch((refusal) => {
      if (!isErrno(refusal, 'EBUSY')) throw error;
      throw new FailedPrecondition(
        `pool ${poolName}: volumes in use keep its dead filesystem mounted. Stop the pods that have them; then it is mounted anew.`,
      );
    });
    return undefined;
  }
}

/**
 * The device that shows the source already. A backing file must never get a second loop device: two devices would be
 * two filesystems on the same blocks, each sure to be alone. One may exist although nothing is mounted here, when the
 * mount of a driver before us lives on in another mount namespace.
 */
async function findDevice({ lane, source, isFile }: HomeMount): Promise<SourceDevice | undefined> {
  const status = await statusOf(lane, source);
  if (!isFile) {
    const device = status.represents;
    return device === undefined
      ? undefined
      : { devicePath: source, device, [Symbol.asyncDispose]: async () => undefined };
  }
  if (!(await isOpenElsewhere(lane, source))) return undefined;
  for (const loop of await listLoops(lane)) {
    if (!sameDevice(loop.backingDevice, status.device) || loop.backingInode !== status.inode) continue;
    const hold = await holdLoop(lane, loop);
    if (hold !== undefined) return { ...loop, [Symbol.asyncDispose]: () => hold[Symbol.asyncDispose]() };
  }
  return undefined;
}

async function attachFile({ lane, poolName, source }: HomeMount): Promise<SourceDevice> {
  const { descriptor, ...loop } = await attachLoop(lane, {
    backing: source,
    label: `pool ${poolName}`.slice(0, 60),
    readonly: false,
    autoclear: true,
    blockSizeBytes: 512,
  });
  return { ...loop, [Symbol.asyncDispose]: () => descriptor[Symbol.asyncDispose]() };
}

async function mountSource(
  { lane, poolName, source, root, isFile, hostBallast }: HomeMount,
  devicePath: string,
): Promise<void> {
  try {
    await using target = await openDirectory(lane, root);
    const mount = () =>
      mountFilesystem(lane, {
        fsType: 'xfs',
        source: devicePath,
        // A sparse file gives what is deleted inside back to its host at once.
        parameters: isFile ? [['discard']] : [],
        attributes: { nosuid: true, nodev: true, noexec: true, atime: 'noatime' },
        target,
      });
    // What the host had no room for when it was unmounted, XFS writes now.
    await (hostBallast === undefined ? mount() : hostBallast.afloat(lane, mount));
  } catch (error) {
    // Its host is full: whoever opens the pool tells of it.
    if (isErrno(error, 'ENOSPC')) throw error;
    throw error instanceof KernelError ? cannotBeMounted({ poolName, source }, error) : error;
  }
}

export function cannotBeMounted(
  { poolName, source }: Pick<HomeMount, 'poolName' | 'source'>,
  why: KernelError,
): DataLoss {
  return new DataLoss(
    `pool ${poolName}: the filesystem on ${source} cannot be mounted (${why.message}). See the kernel's log (dmesg); check it with: xfs_repair -n ${source}`,
  );
}
