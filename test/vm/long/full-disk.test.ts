import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CallError } from '../../support/client.ts';
import { eventually } from '../../support/eventually.ts';
import { assertKeepsake, leaveKeepsake } from '../faults/keepsake.ts';
import { capacityBytes, conditionOf } from '../faults/pool-sight.ts';
import type { GuestNode } from '../node/guest-node.ts';
import { newVolume, usedVolume } from '../node/life.ts';
import { startNode } from '../node/start-node.ts';

const mebibyte = 1n << 20n;
const location = '/srv/few';
const config = `
defaultPool: thin
pools:
  thin: { device: /dev/vdb, overcommit: 8 }
  few: { directory: ${location}/pool, undelete: 1h }
`;
const disks = [
  { name: 'thin', sizeGiB: 0.5 },
  { name: 'few', sizeGiB: 0.5 },
];
/** A filesystem with few inodes, which others use too. */
const prepare = `mkfs.ext4 -q -J size=8 -N 400 /dev/vdc && mkdir -p ${location} && mount /dev/vdc ${location}`;
const setup = { config, pools: ['thin', 'few'], disks, prepare };

describe('T07: a disk that runs full', () => {
  test('what its pools say and do; back to normal when there is room again', async (t) => {
    await using started = await startNode(t, setup);
    const { node } = started;
    await t.test('filled by the user of a thin volume', () => fillFromInside(node));
    await t.test('filled by others, to the last block', () => fillFromOutside(node));
    await t.test('no inodes left', () => useUpInodes(node));
  });
});

async function fillFromInside(node: GuestNode): Promise<void> {
  const greedy = newVolume(node, 'thin');
  await greedy.create(400n * mebibyte);
  await greedy.use();
  await leaveKeepsake(node, greedy);
  const other = newVolume(node, 'thin');
  await other.create(400n * mebibyte);
  await other.use();
  await node.vm.run(`dd if=/dev/zero of=${other.targetPath}/large bs=1M count=64 conv=fsync`);
  const ended = await node.vm.attempt(`dd if=/dev/zero of=${greedy.targetPath}/larger bs=1M conv=fsync`);
  assert.notEqual(ended.code, 0, 'more was written than the disk holds');

  assert.equal(await capacityBytes(node, 'thin'), 0n);
  await assert.rejects(newVolume(node, 'thin').create(32n * mebibyte), isExhausted(/pool thin/));
  await assert.rejects(greedy.snapshot('of-the-greedy'), isExhausted(/pool thin/));
  await eventually(async () => assert.equal((await conditionOf(node, other.id)).abnormal, true));
  // Full is not sick: volumes go, and give their room back.
  await other.leave();
  await other.delete();
  await eventually(async () => assert.ok((await capacityBytes(node, 'thin')) > 0n));
  // The filesystem in the volume may have stopped when its journal could not be written: it is staged anew.
  await greedy.leave();
  await eventually(async () => assert.equal((await conditionOf(node, greedy.id)).abnormal, false));
  await greedy.use();
  await assertKeepsake(node, greedy);
  await node.vm.run(`rm ${greedy.targetPath}/larger`);
  await greedy.leave();
  await greedy.delete();
  await assertUsable(node, 'thin');
}

async function fillFromOutside(node: GuestNode): Promise<void> {
  const volume = await usedVolume(node, 'few');
  await leaveKeepsake(node, volume);
  await node.vm.attempt(`for size in 512M 64M 8M 1M 64k 4k; do
    while fallocate --length $size ${location}/foreign-$size-$((count++)); do :; done; done 2>/dev/null`);
  await assert.rejects(newVolume(node, 'few').create(32n * mebibyte), isExhausted(/pool few/));
  assert.equal(await capacityBytes(node, 'few'), 0n);
  await eventually(async () => assert.match((await conditionOf(node, volume.id)).message, /nearly full/));
  await assertKeepsake(node, volume);
  await volume.leave();
  await volume.delete();
  await node.vm.run(`rm ${location}/foreign-*`);
  await assertUsable(node, 'few');
}

async function useUpInodes(node: GuestNode): Promise<void> {
  const volume = await usedVolume(node, 'few');
  await leaveKeepsake(node, volume);
  await node.vm.run(`mkdir ${location}/foreign; while >${location}/foreign/$((count++)); do :; done 2>/dev/null; true`);
  await assert.rejects(newVolume(node, 'few').create(32n * mebibyte), isExhausted(/no inodes left/));
  assert.equal(await capacityBytes(node, 'few'), 0n);
  await assertKeepsake(node, volume);
  await volume.leave();
  await volume.delete();
  await node.vm.run(`rm -r ${location}/foreign`);
  await assertUsable(node, 'few');
}

async function assertUsable(node: GuestNode, pool: string): Promise<void> {
  assert.ok((await capacityBytes(node, pool)) > 0n);
  const volume = await usedVolume(node, pool);
  assert.equal((await conditionOf(node, volume.id)).abnormal, false);
  await volume.leave();
  await volume.delete();
}

/** Kubernetes looks for another place on this code. */
function isExhausted(words: RegExp): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof CallError, `${error}`);
    assert.equal(error.code, 'RESOURCE_EXHAUSTED', error.message);
    assert.match(error.message, words);
    return true;
  };
}
