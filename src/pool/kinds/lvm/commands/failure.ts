import type { CommandError } from '../../../../command/run.ts';

/** The cause of a failed lvm command, by its words: LVM has one exit code (5) for most of them (lvm(8)). */
export type LvmFailure =
  /** Too few free extents. */
  | 'no-space'
  /** No room in the volume group's metadata for one more name, or its tags. */
  | 'no-metadata-space'
  /** The logical volume is not there. */
  | 'no-volume'
  | 'no-group'
  /** There are several of that name. */
  | 'two-groups'
  /** Another program has the logical volume open. */
  | 'in-use'
  /** The logical volume has that size already, or a larger one. */
  | 'not-larger'
  /** Only a part of its devices is there: a command was killed in the middle. */
  | 'half-active'
  /** There is something else of that name. */
  | 'exists'
  /** The group may have no more logical volumes (vgchange -l). */
  | 'too-many'
  /** Another program has the group's lock, and LVM does not wait. */
  | 'locked'
  /** The group is not to be changed, or not by this node. */
  | 'closed'
  /** A snapshot of it was made by hand. */
  | 'origin-in-use'
  /** A physical volume of the group is not there. */
  | 'incomplete-group'
  | 'not-installed'
  | 'other';

const words: readonly (readonly [LvmFailure, RegExp])[] = [
  [
    'no-metadata-space',
    /exceeds maximum metadata size|too large for circular buffer|metadata too large|Insufficient (free )?metadata/i,
  ],
  [
    'no-space',
    /free space in thin pool .* reached threshold|insufficient free space|insufficient free extents|insufficient suitable .*extents|not enough free/i,
  ],
  ['incomplete-group', /while PVs are missing|refusing activation of partial LV/i],
  ['too-many', /maximum number of logical volumes .* reached/i],
  ['locked', /can't get lock for|cannot obtain lock/i],
  ['closed', /is exported\b|with system ID|is read-only|volume group .* is shared/i],
  ['origin-in-use', /snapshot origin volumes can be resized only while inactive/i],
  ['no-volume', /failed to find logical volume|logical volume .* not found/i],
  ['half-active', /activation of logical volume .* is prohibited while/i],
  ['not-larger', /not larger than existing size|matches existing size/i],
  ['exists', /logical volume .* already exists in volume group/i],
  ['two-groups', /multiple VGs found with the same name/i],
  ['no-group', /volume group .* not found|cannot process volume group/i],
  ['in-use', /\bin use\b|is used by another device|contains a filesystem/i],
];

/** In the middle, by a signal, e.g. by the kernel when memory runs out. Shells tell that by codes above 128. */
export function wasKilled({ exitCode, message }: CommandError): boolean {
  return exitCode === undefined ? !/is not installed|could not be started/.test(message) : exitCode > 128;
}

export function failureOf({ exitCode, message, stderr }: CommandError): LvmFailure {
  if (exitCode === undefined && message.includes('is not installed')) return 'not-installed';
  return words.find(([, pattern]) => pattern.test(stderr))?.[0] ?? 'other';
}
