import type { Content } from '../../../kernel/block/blkid.ts';
import type { Disk } from '../../../kernel/block/disks.ts';

/** All that is known of a disk that may be given to a pool. */
export interface DiskFacts {
  readonly disk: Disk;
  /** The pools that claim it: `pool fast`. */
  readonly owners: readonly string[];
  /** Where it, or a part of it, is mounted, in whatever mount namespace. */
  readonly mountedAt: readonly string[];
  /** The swap devices on it. */
  readonly swaps: readonly string[];
  /** The devices made of it or of its partitions: `dm-0 (vg0-data)`. */
  readonly holders: readonly string[];
  /** It is open exclusively: by a mount, a volume manager, a program that formats. */
  readonly isHeld: boolean;
  /** Other disks that the kernel has the same permanent name for: two ways to one disk, or two disks that lie. */
  readonly namesakes: readonly string[];
  /** The content that was read; a string: the reason why it cannot be read. */
  readonly content: ReadContent | string | undefined;
}

export interface ReadContent {
  /** The signatures that libblkid finds on it. */
  readonly found: Content;
  /** True if its first and its last part are zeros. */
  readonly isZeroAtBothEnds: boolean;
}

/** Flaws that do not matter for a certain pool. */
export interface Lenience {
  /** The pool is recognized by its content, and not by the name of its disk. */
  readonly needsNoName?: boolean;
}

/**
 * The reasons why a disk is not free for a pool; empty: it is. Content that cannot be shown to be blank is foreign:
 * a database on a raw disk has no signature.
 */
export function whyNotFree(facts: DiskFacts, { needsNoName = false }: Lenience = {}): string[] {
  const { content, disk, holders, isHeld, mountedAt, namesakes, owners, swaps } = facts;
  if (disk.sizeBytes === 0n) return ['it has no medium'];
  const used = [
    ...owners.map((owner) => `it is of ${owner}`),
    ...(mountedAt.length > 0 ? [`it is mounted at ${listed(mountedAt)}`] : []),
    ...(swaps.length > 0 ? [`${listed(swaps)} ${swaps.length === 1 ? 'is' : 'are'} swapped to`] : []),
    ...(holders.length > 0 ? [`${listed(holders)} ${holders.length === 1 ? 'is' : 'are'} made of it`] : []),
  ];
  return [
    ...used,
    // The user is in the list already.
    ...(isHeld && used.length === 0 ? ['it is in use (see lsblk)'] : []),
    ...(disk.isReadonly ? ['it is read-only'] : []),
    ...(disk.isRemovable ? ['it can be taken out (removable)'] : []),
    ...(disk.isZoned ? ['its zones can only be written in order'] : []),
    ...(disk.identity === undefined && !needsNoName ? ['nothing names it permanently: it has no serial number'] : []),
    ...(namesakes.length > 0 ? [`${listed(namesakes)} has the same identity`] : []),
    ...whyNotBlank(disk, content),
  ];
}

function whyNotBlank({ partitions }: Disk, content: DiskFacts['content']): string[] {
  if (typeof content === 'string') return [`it cannot be read: ${content}`];
  if (content === undefined) return ['it was not read'];
  const { found, isZeroAtBothEnds } = content;
  switch (found.kind) {
    case 'ambivalent':
      return ['it holds signatures of several kinds'];
    case 'partitions':
      return [`it holds a partition table (${found.type}${partitionsIn(partitions.length)})`];
    case 'filesystem':
      return [`it holds a filesystem (${found.type})`];
    case 'other':
      return [`it holds ${found.type}`];
    case 'blank':
      if (partitions.length > 0) return [`the kernel has partitions of it (${partitions.length})`];
      return isZeroAtBothEnds ? [] : ['it holds data of an unknown kind'];
  }
}

function partitionsIn(count: number): string {
  if (count === 0) return '';
  return count === 1 ? ', 1 partition' : `, ${count} partitions`;
}

const maxListed = 3;

function listed(names: readonly string[]): string {
  const [shown, more] = [names.slice(0, maxListed), names.length - maxListed];
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}
