import { findHolders } from '../kernel/holders.ts';
import { FailedPrecondition } from '../volume/errors.ts';
import { describeHolders, type FoundHolders } from '../volume/holder.ts';
import type { Mounted } from './observe.ts';

/** Who keeps a mount that cannot be undone. */
export function holdersOf(mounted: Mounted | undefined): Promise<FoundHolders> {
  return findHolders({ devices: devicesOf(mounted), busyMountId: mounted?.mount.id }, 'all');
}

/** Why a mount cannot be undone. */
export function busyMount(volumeId: string, found: FoundHolders): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${volumeId} cannot be unmounted: it is in use ${describeHolders(found)}; end that first (see holdfast who).`,
  );
}

function devicesOf(mounted: Mounted | undefined) {
  if (mounted?.device === undefined) return [];
  const { access, device, mount } = mounted;
  // Of a device node that is mounted on a file, the mount table has the name that it has in /dev.
  return [{ device, devicePath: access === 'block' ? `/dev${mount.root}` : mount.source }];
}
