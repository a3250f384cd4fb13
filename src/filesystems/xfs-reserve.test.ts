import assert from 'node:assert/strict';
import { test } from 'node:test';
import { treeReserveBytes } from './xfs-reserve.ts';

const none = { hasFreeInodes: false, hasOwners: false, hasSharing: false };
/** Geometry of 10 GiB by mkfs.xfs. */
const tenGibibytes = { blockBytes: 4096, inodeBytes: 512, groupBlocks: 655_360, groupCount: 4, ...none };

const reservedBlocks = (features: Partial<typeof none>, layout = tenGibibytes) =>
  Number(treeReserveBytes({ ...layout, ...features })) / layout.blockBytes / layout.groupCount;

test('what XFS sets aside in each group, by its trees, as Linux reckons it', () => {
  assert.equal(reservedBlocks({}), 8);
  // 81,920 records of 64 inodes, 126 in a block, 252 blocks in one above.
  assert.equal(reservedBlocks({ hasFreeInodes: true }), 8 + 651 + 3 + 1);
  assert.equal(reservedBlocks({ hasSharing: true }), 8 + 3901 + 16 + 1);
  assert.equal(reservedBlocks({ hasOwners: true }), 8 + 7802 + 174 + 4 + 1);
  assert.equal(reservedBlocks({ hasFreeInodes: true, hasOwners: true, hasSharing: true }), 8 + 655 + 3918 + 7981);
});

test('a group so small that one block is enough for each tree', () => {
  const small = { ...tenGibibytes, groupBlocks: 100 };
  assert.equal(reservedBlocks({ hasSharing: true }, small), 8 + 1);
});
