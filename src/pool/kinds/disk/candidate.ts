import type { Content } from '../../../kernel/block/blkid.ts';
import type { Disk } from '../../../kernel/block/disks.ts';
import { formatBytes } from '../../../volume/size.ts';
import type { TableVerdict } from './gpt.ts';
import type { Remnant } from './label.ts';
import { smallestDiskBytes } from './layout.ts';

/** What sysfs alone says against a disk; undefined: nothing. Of one of ours that is in use, it says nothing either. */
export function refusalBySight(disk: Disk): string | undefined {
  if (disk.sizeBytes < smallestDiskBytes) return `it has less than ${formatBytes(smallestDiskBytes)}`;
  if (disk.isHidden) return 'it is a path to a disk that has another name (multipath)';
  if (disk.isReadonly) return 'it is read-only';
  if (disk.isZoned) return 'it is zoned: it cannot be written anywhere at any time';
  if (![512, 4096].includes(disk.sectorBytes)) return `its sectors have ${disk.sectorBytes} bytes`;
  return undefined;
}

/** What was found on a disk when it was read. */
export interface Examined {
  readonly table: TableVerdict;
  /** What lies where a label would. */
  readonly label: Remnant;
  /** What libblkid finds on it. */
  readonly content: Content;
  /** Whether it could be opened for us alone: nothing of it is mounted, swapped to, or part of anything. */
  readonly isAlone: boolean;
}

/**
 * Why a disk that has no label of ours is not blank; undefined: it is, and may be taken. What cannot be shown to be blank
 * is somebody's data.
 */
export function refusalByContent(disk: Disk, { content, isAlone, label, table }: Examined): string | undefined {
  if (disk.holders.length > 0) return `it is part of ${disk.holders.join(', ')}`;
  if (table.kind === 'cut') {
    return `it was labelled by Holdfast as a disk of ${formatBytes(table.sizeBytes)}, and has ${formatBytes(disk.sizeBytes)} now`;
  }
  if (table.kind !== 'begun') {
    if (disk.partitions.length > 0) return `it has partitions (${disk.partitions.join(', ')})`;
    if (content.kind === 'partitions') return `it has a partition table (${content.type})`;
    if (content.kind === 'ambivalent') return 'it has signatures of several kinds';
    if (content.kind !== 'blank') return `it holds ${content.type}`;
  }
  // No signature is not yet blank: a database on a raw disk has none either.
  if (table.kind === 'foreign' && table.place === 'end') {
    return 'it holds data of an unknown kind at its end, such as the second copy of a partition table';
  }
  if (table.kind === 'foreign' || label.kind === 'foreign') return 'it holds data of an unknown kind';
  if (label.kind === 'used') return `its partition table is damaged, but it has the label of ${label.what}`;
  return isAlone ? undefined : 'it is in use: mounted, swapped to, or part of something';
}
