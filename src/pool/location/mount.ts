import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { diskFaultOf } from '../../kernel/block/disk-fault.ts';
import { attachLoop, holdLoop, listLoops } from '../../kernel/block/loop.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno, KernelError } from '../../kernel/call/errno.ts';
import { type DeviceNumber, sameDevice } from '../../kernel/device.ts';
import { type FileStatus, openDirectory, statusOf } from '../../kernel/file/path.ts';
import { mountFilesystem, unmount } from '../../kernel/mount/mount.ts';
import { isOpenElsewhere } from '../../kernel/process/lock.ts';
import { DataLoss, FailedPrecondition } from '../../volume/errors.ts';
import { step } from '../../volume/step.ts';
import type { Freezes } from '../freeze/freezes.ts';
import type { PoolLog } from '../log.ts';
import { writeHealthFile } from '../records/health-file.ts';
import { Layout } from '../records/layout.ts';
import { markerPathOf, readMarker } from '../records/pool-file.ts';
import type { ReservedSpace } from '../records/reserved-space.ts';
import { ensureFilesystem } from './format.ts';
import type { PoolDisk } from './match/one-disk.ts';
import { requireOwnFilesystem } from './whose.ts';

export interface LocationMount {
  readonly queue: DiskQueue;
  readonly poolName: string;
  readonly dataDirectory: string;
  readonly log?: PoolLog | undefined;
  /** The block device or the backing file, locked by the caller. */
  readonly source: string;
  /** An existing directory of the driver's own. */
  readonly root: string;
  /** The device was found by a match. */
  readonly matched?: PoolDisk | undefined;
  readonly freezes: Freezes;
  /** True if the source is a backing file. */
  readonly isFile: boolean;
  /** Room on the host of a backing file. */
  readonly hostReserve: ReservedSpace | undefined;
  /** Detaches devices that keep a dead filesystem mounted and are of no use; undefined: there are no such devices. */
  readonly detachFromDead?: ((queue: DiskQueue) => Promise<void>) | undefined;
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
export async function mountLocation(location: LocationMount): Promise<MountedDevice> {
  const { root } = location;
  const status = await usableMount(location);
  await using attached = await findDevice(location);
  if (status !== undefined) {
    if (!isOn(status, attached)) throw foreignMount(location);
    return attached;
  }
  await using device = attached ?? (await attachFile(location));
  const disk = { ...location, ...device, markerDirectory: dirname(root), isLocked: !location.isFile };
  const isNew = await ensureFilesystem(disk);
  if (!isNew) await requireOwnFilesystem(disk).catch((error) => explainMount(location, error));
  await step('open/mount', () => mountSource(location, device.devicePath));
  // Mounted elsewhere, or held by volumes in use, it is the same one as before.
  await thawLeft(location);
  return device;
}

/**
 * A driver that was killed while it grew left it frozen: each write would wait for ever. Another program that
 * freezes it, a backup of the machine for example, thaws it.
 */
async function thawLeft(location: LocationMount): Promise<void> {
  const { freezes, queue, root } = location;
  if (!(await freezes.isLeft(queue, 'pool')) && !(await isUnnoted(location))) return;
  await step('open/thaw', () => freezes.thaw(queue, 'pool', root));
}

/** True if the last driver here that had the pool open may have frozen it without a note, as drivers once did. */
async function isUnnoted({ dataDirectory, freezes, poolName, queue }: LocationMount): Promise<boolean> {
  if (await freezes.areNoted(queue)) return false;
  return (await readMarker(queue, markerPathOf(dataDirectory, poolName))) !== undefined;
}

function isOn(status: FileStatus, device: SourceDevice | undefined): device is SourceDevice {
  return device !== undefined && sameDevice(status.device, device.device);
}

function foreignMount({ poolName, root }: LocationMount): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: something else is mounted at ${root}, which is the pool's own place. Unmount it.`,
  );
}

/**
 * True if the mount at the root is alive, and not the pool's: then it is left alone. No pool of ours is without its
 * file for longer than a moment of its first start.
 */
async function isForeign(location: LocationMount, status: FileStatus): Promise<boolean> {
  const { queue, root } = location;
  try {
    await queue.run(() => stat(new Layout(root).poolFile));
    return false;
  } catch (error) {
    ignoreMissing(error);
  }
  await using attached = await findDevice(location);
  return !isOn(status, attached);
}

/** Unmounts the pool's filesystem. In use by volumes: it stays, and the next start finds it. */
export async function unmountLocation(queue: DiskQueue, root: string): Promise<void> {
  try {
    await unmount(queue, root);
  } catch (error) {
    if (!isErrno(error, 'EBUSY', 'EINVAL')) throw error;
  }
}

/** The mount at the root; undefined if there is none, or was none until now: a filesystem that is dead is of no use. */
async function usableMount(location: LocationMount): Promise<FileStatus | undefined> {
  const { detachFromDead, queue, poolName, root } = location;
  try {
    const status = await statusOf(queue, root);
    if (!status.isMountRoot) return undefined;
    if (await isForeign(location, status)) throw foreignMount(location);
    await thawLeft(location);
    await writeHealthFile(queue, root);
    return status;
  } catch (error) {
    const sickness = diskFaultOf(error);
    if (sickness === undefined) throw error;
    await detachFromDead?.(queue);
    await unmount(queue, root).catch((refusal) => {
      if (!isErrno(refusal, 'EBUSY')) throw error;
      throw new FailedPrecondition(
        `pool ${poolName}: volumes in use keep its dead filesystem mounted. Stop the pods that have them; then it is mounted again.`,
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
async function findDevice({ queue, source, isFile }: LocationMount): Promise<SourceDevice | undefined> {
  const status = await statusOf(queue, source);
  if (!isFile) {
    const device = status.represents;
    return device === undefined
      ? undefined
      : { devicePath: source, device, [Symbol.asyncDispose]: async () => undefined };
  }
  if (!(await isOpenElsewhere(queue, source))) return undefined;
  for (const loop of await listLoops(queue)) {
    if (!sameDevice(loop.backingDevice, status.device) || loop.backingInode !== status.inode) continue;
    const hold = await holdLoop(queue, loop);
    if (hold !== undefined) return { ...loop, [Symbol.asyncDispose]: () => hold[Symbol.asyncDispose]() };
  }
  return undefined;
}

async function attachFile({ queue, poolName, source }: LocationMount): Promise<SourceDevice> {
  const { descriptor, ...loop } = await attachLoop(queue, {
    backing: source,
    label: `pool ${poolName}`.slice(0, 60),
    readonly: false,
    autoclear: true,
    blockSizeBytes: 512,
  });
  return { ...loop, [Symbol.asyncDispose]: () => descriptor[Symbol.asyncDispose]() };
}

async function mountSource(
  { queue, poolName, source, root, isFile, hostReserve }: LocationMount,
  devicePath: string,
): Promise<void> {
  try {
    await using target = await openDirectory(queue, root);
    const mount = () =>
      mountFilesystem(queue, {
        fsType: 'xfs',
        source: devicePath,
        // A sparse file gives blocks deleted inside back to its host at once.
        parameters: isFile ? [['discard']] : [],
        attributes: { nosuid: true, nodev: true, noexec: true, atime: 'noatime' },
        target,
      });
    // XFS now writes the data for which the host had no room when it was unmounted.
    await (hostReserve === undefined ? mount() : hostReserve.withReserve(queue, mount));
  } catch (error) {
    explainMount({ poolName, source }, error);
  }
}

function explainMount(location: Pick<LocationMount, 'poolName' | 'source'>, error: unknown): never {
  // Its host is full: the opening of the pool reports that.
  if (isErrno(error, 'ENOSPC') || !(error instanceof KernelError)) throw error;
  throw cannotBeMounted(location, error);
}

export function cannotBeMounted(
  { poolName, source }: Pick<LocationMount, 'poolName' | 'source'>,
  why: KernelError,
): DataLoss {
  return new DataLoss(
    `pool ${poolName}: the filesystem on ${source} cannot be mounted (${why.message}). See the kernel's log (dmesg); check it with: xfs_repair -n ${source}`,
  );
}
