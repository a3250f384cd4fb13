import { basename } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { findHolders, type Sought } from '../../kernel/process/holders.ts';
import type { AttachedDevice } from '../../pool/pool.ts';
import { Aborted, FailedPrecondition } from '../../volume/errors.ts';
import { describeHolders, type FoundHolders } from '../../volume/holder.ts';
import { devicePathIn, type Mounted } from './observe.ts';

/** The holders of a mount that cannot be undone. */
export async function holdersOf(queue: DiskQueue, mounted: Mounted | undefined): Promise<FoundHolders> {
  return findHolders({ ...(await soughtIn(queue, mounted)), busyMountId: mounted?.mount.id }, 'all');
}

/** The refusal of an unmount, with the holders. */
export function busyMount(volumeId: string, found: FoundHolders): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${volumeId} cannot be unmounted: it is in use ${describeHolders(found)}; end that first (see holdfast who).`,
  );
}

/** The reason why a filesystem cannot be mounted: its device is in exclusive use. */
export async function busyDevice(volumeId: string, device: AttachedDevice): Promise<Aborted | FailedPrecondition> {
  const found = await holdersOfDevice(device);
  const holders = describeHolders(found);
  // e2fsck and resize2fs outlive a driver that is killed, and are left to finish: cut short they could do harm.
  if (found.holders.some((each) => each.kind === 'process' && ['e2fsck', 'resize2fs'].includes(each.command))) {
    return new Aborted(`volume ${volumeId}: its ext4 is still being checked or grown ${holders}; try again.`);
  }
  return new FailedPrecondition(
    `volume ${volumeId} cannot be mounted: it is in use ${holders}; end that first (see holdfast who).`,
  );
}

/** The reason why it cannot be mounted with other parameters: it is mounted elsewhere, and keeps its own. */
export async function mountedOtherwise(volumeId: string, device: AttachedDevice): Promise<FailedPrecondition> {
  const holders = describeHolders(await holdersOfDevice(device));
  return new FailedPrecondition(`volume ${volumeId} keeps its options while in use ${holders}; see holdfast who.`);
}

/** Besides this process, which has just attached it. */
async function holdersOfDevice(device: AttachedDevice): Promise<FoundHolders> {
  const { holders, isComplete } = await findHolders({ devices: [device] }, 'all');
  return { holders: holders.filter((holder) => holder.kind !== 'process' || holder.pid !== process.pid), isComplete };
}

async function soughtIn(queue: DiskQueue, mounted: Mounted | undefined): Promise<Sought> {
  if (mounted === undefined) return { devices: [] };
  const { access, device, mount, owner } = mounted;
  // If a device node is mounted on a file, the mount table has the name that it has in /dev.
  if (access === 'block') return { devices: device ? [{ device, devicePath: `/dev/${basename(mount.root)}` }] : [] };
  const isDirectory = mount.root !== '/' && owner?.isWhole === true;
  if (isDirectory) return { devices: [], directories: [mount.target] };
  if (device === undefined) return { devices: [], filesystems: [{ fsType: mount.fsType, source: mount.source }] };
  return { devices: [{ device, devicePath: await devicePathIn(queue, mounted) }] };
}
