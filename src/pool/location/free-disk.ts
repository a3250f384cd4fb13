import type { Content } from '../../kernel/block/blkid.ts';
import type { Disk } from '../../kernel/block/disks.ts';

/** All that is known of a disk that may be given to a pool. */
export interface DiskFacts {
  readonly disk: Disk;
  /** Who takes it for himself: `pool fast`. */
  readonly owners: readonly string[];
  /** Where it, or a part of it, is mounted, in whatever mount namespace. */
  readonly mountedAt: readonly string[];
  /** What is swapped to of it. */
  readonly swaps: readonly string[];
  /** What is made of it or of its partitions: `dm-0 (vg0-data)`. */
  readonly holders: readonly string[];
  /** Somebody has it open exclusively: a mount, a volume manager, a program that formats. */
  readonly isHeld: boolean;
  /** Other disks that the kernel has the same permanent name for: two ways to one disk, or two disks that lie. */
  readonly namesakes: readonly string[];
  /** What was read of it; a string: why it cannot be read. */
  readonly content: ReadContent | string | undefined;
}

export interface ReadContent {
  /** What libblkid finds on it. */
  readonly found: Content;
  /** Whether its first and its last part are zeros. */
  readonly isZeroAtBothEnds: boolean;
}

/** What does not speak against a disk where its pool can do without. */
export interface Lenience {
  /** The pool is told by what lies in it, and not by the name of its disk. */
  readonly needsNoName?: boolean;
}

/**
 * Why a disk is not free to be given to a pool; empty: it is. What cannot be shown to be blank and nobody's is somebody's:
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
    // Who it is, is told already.
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

const mostListed = 3;

function listed(names: readonly string[]): string {
  const [shown, more] = [names.slice(0, mostListed), names.length - mostListed];
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}
