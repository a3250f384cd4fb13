import type { VolumeRecord } from '../../volume/record.ts';
import { treeCopyBytes } from '../../volume/size.ts';
import type { TreeRecord } from './records.ts';

/** For the plan of a move, and for a copy that finds it out. */
export const moreThanItsSize =
  'The volume has more in it than its size allows: make it larger (expand its claim), or remove files. Nothing was moved.';

/** True if a copy of the volume would end before it has all of it. */
export function hasMoreThanItsSize({ content, sizeBytes }: VolumeRecord, usedBytes: bigint): boolean {
  return content.type === 'directory' && usedBytes > treeCopyBytes(sizeBytes);
}

/** The smallest inode of a file that filesystems have, and the block that a directory takes. */
const inodeBytes = 512;
const directoryBytes = 4096;

/** The bytes that a record takes in the filesystem at the least, but for those of data. */
export function bytesOf(record: TreeRecord): number {
  switch (record.type) {
    case 'directory':
      return directoryBytes + record.name.length;
    case 'file':
    case 'special':
      return inodeBytes + record.name.length;
    case 'symlink':
      return inodeBytes + record.name.length + record.target.length;
    case 'link':
      return record.name.length;
    case 'attribute':
      return record.value.length;
    default:
      return 0;
  }
}
