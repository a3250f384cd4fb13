import { FailedPrecondition, ResourceExhausted } from '../../../volume/errors.ts';
import type { Layout } from '../../../volume/layout.ts';
import { formatBytes } from '../../../volume/size.ts';
import { failureOf } from './commands/failure.ts';
import { isLvmError } from './commands/lvm.ts';
import type { GroupState } from './group-state.ts';
import { byRoom, largestBytes } from './layout.ts';
import { thinLvName } from './names.ts';

interface Trouble {
  readonly poolName: string;
  readonly vgName: string;
  readonly neededBytes: bigint;
}

/** What a command of LVM failed for, in words that say what to do. @returns the error itself if it is anything else */
export function explainLvm(error: unknown, { neededBytes, poolName, vgName }: Trouble): unknown {
  if (!isLvmError(error)) return error;
  const pool = `pool ${poolName}`;
  switch (failureOf(error)) {
    case 'no-space':
      return new ResourceExhausted(
        `${pool} has no ${formatBytes(neededBytes)} free in volume group ${vgName}: delete volumes, or extend it.`,
      );
    case 'no-metadata-space':
      return new ResourceExhausted(
        `${pool}: the metadata of volume group ${vgName} has no room for another volume. Delete some, or use disks with a larger metadata area (docs/lvm.md).`,
      );
    case 'exists':
      // All other names of ours are random.
      return new FailedPrecondition(
        `${pool}: volume group ${vgName} has a logical volume ${thinLvName} that is not Holdfast's. Rename or remove it.`,
      );
    case 'incomplete-group':
      return incompleteGroup(poolName, vgName);
    case 'no-group':
      return missingGroup(poolName, vgName);
    default:
      return error;
  }
}

/** Another node may have more disks, so it is no fault of the request. */
export function noRoomFor(
  layout: Layout,
  sizeBytes: bigint,
  { poolName, state }: { readonly poolName: string; readonly state: GroupState },
): ResourceExhausted {
  const disks = byRoom(state);
  if (disks.length < 2) {
    return new ResourceExhausted(
      `pool ${poolName}: a volume with layout ${layout} needs two disks or more, and volume group ${state.name} has ${disks.length} that can be used: extend it.`,
    );
  }
  const most = largestBytes(layout, state.freeBytes, state);
  return new ResourceExhausted(
    `pool ${poolName}: the disks of volume group ${state.name} have no room for ${formatBytes(sizeBytes)} with layout ${layout}, only for ${formatBytes(most)}: delete volumes, or extend it.`,
  );
}

export function incompleteGroup(poolName: string, vgName: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: a disk of volume group ${vgName} is missing (see pvs), and so LVM changes nothing in it. Put it back, or see vgreduce(8).`,
  );
}

export function missingGroup(poolName: string, vgName: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: there is no volume group ${vgName} on this node (see vgs). Are its disks there?`,
  );
}

export function goneByHand(poolName: string, vgName: string, lvName: string): FailedPrecondition {
  return new FailedPrecondition(`pool ${poolName}: logical volume ${vgName}/${lvName} is gone: somebody removed it.`);
}
