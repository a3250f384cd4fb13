import type { MountedXfs } from '../kernel/file/xfs.ts';

/*
 * Space that XFS keeps in each allocation group so that its trees can grow when nothing else is free: statfs(2) counts it
 * as used (fs/xfs/libxfs/xfs_ag_resv.c). No call returns it, so it is computed as the kernel does: a tree as large as it
 * can become, with all of its blocks half empty.
 */

type XfsTrees = Pick<
  MountedXfs,
  'blockBytes' | 'groupBlocks' | 'groupCount' | 'hasFreeInodes' | 'hasOwners' | 'hasSharing' | 'inodeBytes'
>;

/** Bytes of a block's header, of a record, and of a key with its pointer. */
const headerBytes = 56;
const freeInodes = { recordBytes: 16, keyBytes: 8 };
const owners = { recordBytes: 24, keyBytes: 44 };
const sharing = { recordBytes: 12, keyBytes: 8 };

const inodesPerRecord = 64;
/** XFS_ALLOCBT_AGFL_RESERVE and four more. */
const freeListBlocks = 8;
/** The owners' tree has a hundredth of the group at least. */
const ownersShare = 100;

/** All that statfs(2) counts as used because of it; what the trees take already counts twice, and is little. */
export function treeReserveBytes(xfs: XfsTrees): bigint {
  const { blockBytes, groupBlocks, groupCount, hasFreeInodes, hasOwners, hasSharing, inodeBytes } = xfs;
  const largest = (tree: TreeSizes, records: number) => largestTreeBlocks(tree, records, blockBytes);
  const inodes = groupBlocks * Math.floor(blockBytes / inodeBytes);
  const perGroup =
    freeListBlocks +
    (hasFreeInodes ? largest(freeInodes, Math.ceil(inodes / inodesPerRecord)) : 0) +
    (hasOwners ? Math.max(Math.floor(groupBlocks / ownersShare), largest(owners, groupBlocks)) : 0) +
    (hasSharing ? largest(sharing, groupBlocks) : 0);
  return BigInt(perGroup) * BigInt(groupCount) * BigInt(blockBytes);
}

interface TreeSizes {
  readonly recordBytes: number;
  readonly keyBytes: number;
}

function largestTreeBlocks({ keyBytes, recordBytes }: TreeSizes, records: number, blockBytes: number): number {
  const minPerBlock = (bytes: number) => Math.floor(Math.floor((blockBytes - headerBytes) / bytes) / 2);
  let level = Math.ceil(records / minPerBlock(recordBytes));
  let blocks = level;
  while (level > 1) {
    level = Math.ceil(level / minPerBlock(keyBytes));
    blocks += level;
  }
  return blocks;
}
