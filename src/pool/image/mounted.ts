import { type Descriptor, openReadOnly } from '../../kernel/descriptor.ts';
import { sameDevice } from '../../kernel/device.ts';
import type { Lane } from '../../kernel/lane.ts';
import type { Mount } from '../../kernel/mount-table.ts';
import { statusOf } from '../../kernel/path.ts';
import type { AttachedDevice } from '../pool.ts';

/**
 * Opens the root of the filesystem on a device, where it is mounted; undefined if it is not. Opened first and then
 * checked: had it been unmounted meanwhile, the path would lead to the host's own filesystem.
 */
export async function openMounted(
  lane: Lane,
  table: readonly Mount[],
  device: AttachedDevice,
): Promise<Descriptor | undefined> {
  for (const mount of table.filter((each) => isMountOf(each, device))) {
    const directory = await openReadOnly(lane, mount.target).catch(() => undefined);
    if (directory === undefined) continue;
    const status = await statusOf(lane, directory);
    if (status.mountId === mount.id && status.kind === 'directory') return directory;
    await directory[Symbol.asyncDispose]();
  }
  return undefined;
}

/** btrfs mounts have a device number of their own and name their device. */
export function isMountOf(
  mount: Mount,
  { device, devicePath }: Pick<AttachedDevice, 'device' | 'devicePath'>,
): boolean {
  return sameDevice(mount.device, device) || (mount.device.major === 0 && mount.source === devicePath);
}
