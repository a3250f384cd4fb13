import { type Descriptor, openReadOnly } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno, KernelError } from '../../kernel/call/errno.ts';
import { statusOf } from '../../kernel/file/path.ts';
import { type MountParameter, mountDetached } from '../../kernel/mount/mount.ts';
import { type Mount, readMountTable } from '../../kernel/mount/mount-table.ts';
import { mountsOfDevices } from '../../kernel/mount/mounts-of-device.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import type { FilesystemType } from '../../volume/filesystem.ts';
import { shortPath } from '../../volume/short-path.ts';
import type { AttachedDevice } from '../pool.ts';

/**
 * Opens a directory of the filesystem on a device, if that is mounted; undefined if it is not. Opened first and then
 * checked: had it been unmounted meanwhile, the path would lead to the host's own filesystem.
 * @throws FailedPrecondition if it is mounted and nothing leads to it
 */
export async function openMounted(
  queue: DiskQueue,
  table: readonly Mount[],
  device: AttachedDevice,
): Promise<Descriptor | undefined> {
  const shows = await mountsOfDevices(queue, table, { devices: [device.device] });
  const mounts = table.filter((each) => shows(each, device.device) === true);
  for (const mount of mounts) {
    const directory = await openReadOnly(queue, mount.target).catch(() => undefined);
    // Hidden, or dead: then it is opened once more below, and says so.
    if (directory === undefined) continue;
    const status = await statusOf(queue, directory);
    if (status.mountId === mount.id && status.kind === 'directory') return directory;
    await directory[Symbol.asyncDispose]();
  }
  const [hidden] = mounts;
  return hidden === undefined ? undefined : await openHidden(queue, hidden, device);
}

/**
 * Something else is mounted over all its places. A new mount of its device, which is not visible, shows the same
 * filesystem: the kernel has one for each device.
 */
async function openHidden(
  queue: DiskQueue,
  { fsType, id, superOptions, target }: Mount,
  device: AttachedDevice,
): Promise<Descriptor | undefined> {
  let directory: Descriptor;
  try {
    await using mount = await mountAgain(queue, device, fsType, superOptions.includes('ro'));
    directory = await openReadOnly(queue, mount);
  } catch (error) {
    if (!(error instanceof KernelError)) throw error;
    if (isErrno(error, 'EIO', 'ESHUTDOWN')) {
      throw new FailedPrecondition(
        `the filesystem on ${device.devicePath}, mounted at ${shortPath(target)}, has shut down (${error.code}), see the node's kernel log: end its pods; it recovers when it is mounted next.`,
      );
    }
    throw new FailedPrecondition(
      `the filesystem on ${device.devicePath}, mounted at ${shortPath(target)}, is hidden by another mount and cannot be reached (${error.code}): unmount what hides it.`,
    );
  }
  // While it was mounted, nothing else can have been given its device.
  const table = await readMountTable(queue);
  const shows = await mountsOfDevices(queue, table, { devices: [device.device] });
  if (table.some((mount) => mount.id === id && shows(mount, device.device) === true)) return directory;
  await directory[Symbol.asyncDispose]();
  return undefined;
}

/** Mounts the live filesystem of a device that is mounted nowhere, where it is not visible. */
export async function mountUnseen(
  queue: DiskQueue,
  device: AttachedDevice,
  fsType: FilesystemType,
): Promise<Descriptor> {
  try {
    return await mountAgain(queue, device, fsType, device.readonly);
  } catch (error) {
    // The kernel has made it read-only after an error.
    if (!isErrno(error, 'EBUSY')) throw error;
    return await mountAgain(queue, device, fsType, true);
  }
}

/** @param readonly as the filesystem is: anything else is EBUSY */
function mountAgain(
  queue: DiskQueue,
  { devicePath }: AttachedDevice,
  fsType: string,
  readonly: boolean,
): Promise<Descriptor> {
  const parameters: MountParameter[] = readonly ? [['ro']] : [];
  return mountDetached(queue, { fsType, source: devicePath, parameters, attributes: {} });
}
