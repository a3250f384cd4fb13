import { FailedPrecondition, ResourceExhausted, Unavailable } from '../../../../volume/errors.ts';
import type { Layout } from '../../../../volume/layout.ts';
import { exactQuantity, formatBytes } from '../../../../volume/size.ts';
import { failureOf } from '../commands/failure.ts';
import { isLvmError } from '../commands/lvm.ts';
import { byRoom, largestBytes } from '../layout.ts';
import { poolLvName, thinLvName } from '../names.ts';
import type { GroupState } from './group-state.ts';

interface Trouble {
  readonly poolName: string;
  readonly vgName: string;
  readonly neededBytes: bigint;
}

/** The cause of a failed command of LVM, in words that say what to do. @returns the error itself if it is anything else */
export function explainLvm(error: unknown, { neededBytes, poolName, vgName }: Trouble): unknown {
  if (!isLvmError(error)) return error;
  const pool = `pool ${poolName}`;
  switch (failureOf(error)) {
    case 'no-space':
      return new ResourceExhausted(
        `${pool} has no ${formatBytes(neededBytes)} free in volume group ${vgName}: delete volumes, or extend it.`,
      );
    case 'no-metadata-space':
      return noMetadata(poolName, vgName);
    case 'too-many':
      return new ResourceExhausted(
        `${pool}: volume group ${vgName} may have no more logical volumes. Delete volumes, or let it have more (vgchange -l 0 ${vgName}).`,
      );
    case 'locked':
      return new Unavailable(
        `${pool}: another command of LVM has volume group ${vgName} locked, and lvm.conf says not to wait (wait_for_locks): it is tried again.`,
      );
    case 'closed':
      return new FailedPrecondition(
        `${pool}: volume group ${vgName} is exported, read-only, shared, or of another machine (see vgs -o +vg_systemid): LVM changes nothing in it.`,
      );
    case 'origin-in-use':
      return new FailedPrecondition(
        `${pool}: its logical volume in ${vgName} has a snapshot that was made by hand (lvs): it cannot grow until that is removed.`,
      );
    case 'exists':
      return new FailedPrecondition(
        `${pool}: volume group ${vgName} has a logical volume ${takenName(error.stderr)} that is not Holdfast's. Rename or remove it.`,
      );
    case 'incomplete-group':
      return incompleteGroup(poolName, vgName);
    case 'no-group':
      return missingGroup(poolName, vgName);
    case 'two-groups':
      return twoGroups(poolName, vgName);
    default:
      return error;
  }
}

/** Names of ours but for two are random. */
function takenName(words: string): string {
  return /logical volume "?([^"\s]+)"? already exists/i.exec(words)?.[1] ?? `${poolLvName} or ${thinLvName}`;
}

/** Another node may have more disks, so it is no fault of the request. */
export function noRoomFor(
  layout: Layout,
  sizeBytes: bigint,
  { poolName, state }: { readonly poolName: string; readonly state: GroupState },
): ResourceExhausted {
  const usable = byRoom(state);
  const disks = layout === 'raid1' ? new Set(usable.flatMap(({ disks: each }) => each)) : new Set(usable);
  if (disks.size < 2) {
    return new ResourceExhausted(
      `pool ${poolName}: a volume with layout ${layout} needs two disks or more, and volume group ${state.name} has ${disks.size} that can be used: extend it.`,
    );
  }
  const largest = largestBytes(layout, state.freeBytes, state);
  return new ResourceExhausted(
    `pool ${poolName}: the disks of volume group ${state.name} have no room for ${formatBytes(sizeBytes)} with layout ${layout}, only for ${formatBytes(largest)}: delete volumes, or extend it.`,
  );
}

/** For the thin pool of a pool that has none yet. LVM keeps as much again as its metadata takes, for repairs. */
export function noRoomForThinPool(
  { freeBytes, name, poolName }: { readonly freeBytes: bigint; readonly name: string; readonly poolName: string },
  { metadataBytes, sizeBytes }: { readonly metadataBytes: bigint; readonly sizeBytes: bigint },
): ResourceExhausted {
  const neededBytes = sizeBytes + 2n * metadataBytes;
  // Rounded, two sizes of which one is too large for the other may read the same.
  const isSeen = formatBytes(neededBytes) !== formatBytes(freeBytes);
  const [needed, size, metadata, free] = [neededBytes, sizeBytes, metadataBytes, freeBytes].map(
    isSeen ? formatBytes : exactQuantity,
  );
  return new ResourceExhausted(
    `pool ${poolName}: its thinPool takes ${needed} (size ${size}, and twice ${metadata} of metadata), and volume group ${name} has ${free} free: write a smaller thinPool.size, or extend the group (vgextend).`,
  );
}

export function noMetadata(poolName: string, vgName: string): ResourceExhausted {
  return new ResourceExhausted(
    `pool ${poolName}: the metadata of volume group ${vgName} has no room for another volume. Delete some, or use disks with a larger metadata area (docs/lvm.md).`,
  );
}

export function incompleteGroup(poolName: string, vgName: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: a disk of volume group ${vgName} is missing (see pvs), and nothing is changed in it meanwhile. Put it back, or see vgreduce(8).`,
  );
}

export function missingGroup(poolName: string, vgName: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: there is no volume group ${vgName} on this node (see vgs). Bring its disks back, correct volumeGroup, or make it (vgcreate ${vgName} DISK).`,
  );
}

export function otherGroup(poolName: string, vgName: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: volume group ${vgName} is not the one that the pool was opened in, by its UUID (vgs -o +vg_uuid). Are these the right disks? Was the pool's own renamed?`,
  );
}

/** The refusal for a group that the driver has made: no other may be made in its place. */
export function lostGroup(poolName: string, vgName: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: there is no volume group ${vgName} on this node (see vgs), and this pool had one. Bring its disks back.`,
  );
}

export function twoGroups(poolName: string, vgName: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: two volume groups of this node are called ${vgName} (see vgs -o +vg_uuid). Rename the other one (vgrename UUID NAME), or take its disks out.`,
  );
}

/**
 * LVM changes and activates nothing of a group while it sees one of its disks twice. If it is restricted to the disks of
 * the group alone, it does not see the other one.
 * @throws FailedPrecondition
 */
export function refuseCopies(poolName: string, { copies, name }: Pick<GroupState, 'copies' | 'name'>): void {
  const [copy] = copies;
  if (copy === undefined) return;
  throw new FailedPrecondition(
    `pool ${poolName}: ${copy.path} and ${copy.otherPath} are one disk of volume group ${name}, by their labels: a copy, or two paths to it. Take one out, or clear the copy. Nothing was changed.`,
  );
}

export function goneByHand(poolName: string, vgName: string, lvName: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: logical volume ${vgName}/${lvName} is gone: it was removed by hand.`,
  );
}
