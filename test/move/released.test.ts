import assert from 'node:assert/strict';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { adminService } from '../../src/admin/service.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { Mover } from '../../src/move/mover.ts';
import { Pools } from '../../src/pool/pools.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { openTestDirectories } from '../support/directory-pool.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';
import { movesOf } from './two-pools.ts';

const spec = volumeSpec('data', { content: { type: 'directory' }, sizeBytes: 64n << 20n });
const { id } = spec;
const call = { note: () => undefined };

/** A node with two pools of directories, which can give a volume back as plain files. */
async function open(scratch: Scratch) {
  const dataDirectory = scratch.join('data');
  const opener = (name: string) => (queue: DiskQueue) =>
    openTestDirectories(scratch, { name, queue, path: scratch.join(name), dataDirectory });
  const pools = new Pools(new Map(['one', 'two'].map((name) => [name, opener(name)])), 'one');
  assert.deepEqual(await pools.open(), []);
  const objects = new ObjectQueue();
  const mover = new Mover({ pools, objects, dataDirectory, queue: new DiskQueue('node', 2), log: quiet });
  await mover.resume();
  const admin = adminService({ nodeId: 'node', pools, objects, mover });
  return {
    ...{ admin, mover, pools },
    async [Symbol.asyncDispose]() {
      await mover.stop();
      await pools.close();
    },
  };
}

function filesOf(scratch: Scratch, pool: string): string {
  const entries = readdirSync(scratch.join(pool), { recursive: true, encoding: 'utf8' });
  return scratch.join(pool, entries.find((entry) => entry.endsWith(`${id}/data`)) ?? assert.fail());
}

/** The volume is in pool two, and pool one has its disk as it was before the move. */
async function movedFromOldDisk(scratch: Scratch): Promise<void> {
  {
    await using node = await open(scratch);
    await node.pools.get('one').create(spec);
    writeFileSync(join(filesOf(scratch, 'one'), 'file'), 'earlier');
  }
  cpSync(scratch.join('one'), scratch.join('one-earlier'), { recursive: true });
  {
    await using node = await open(scratch);
    await node.mover.start(id, 'two', undefined);
    await eventually(() => assert.equal(node.mover.sights()[0]?.job.state, 'done'));
    writeFileSync(join(filesOf(scratch, 'two'), 'file'), 'latest');
  }
  rmSync(scratch.join('one'), { recursive: true });
  cpSync(scratch.join('one-earlier'), scratch.join('one'), { recursive: true });
}

describe('a volume that is released', () => {
  test('is not one of which the pool has a left copy alone: that stays, also if no note says so', async () => {
    using scratch = new Scratch('released');
    await using node = await open(scratch);
    const one = node.pools.get('one');
    await one.create(spec);
    const moves = movesOf(one);
    const { fenceId } = await moves.close(id, { moveId: 'any', fenceId: 'any' });
    await moves.give(id, { moveId: 'any', fenceId });
    rmSync(scratch.join('data/moved', `${id}.json`));
    const to = scratch.join('released-files');
    await assert.rejects(node.admin.release({ id, to }, call), /was handed over by pool one/);
    assert.equal((await moves.stateOf(id)).why, 'given');
    assert.deepEqual(await one.trash(), []);
  });

  test('leaves no copy that is the volume then: that of an old disk goes to the trash first', async () => {
    using scratch = new Scratch('released');
    await movedFromOldDisk(scratch);
    await using node = await open(scratch);
    assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'old');
    const to = scratch.join('released-files');
    assert.equal((await node.admin.release({ id, to }, call)).pool, 'two');
    assert.equal(readFileSync(join(to, 'file'), 'utf8'), 'latest');
    assert.equal(await node.pools.find(id), undefined);
    assert.equal((await node.pools.get('one').trash()).length, 1);
  });

  test('stays while it is moving', async () => {
    using scratch = new Scratch('released');
    await using node = await open(scratch);
    await node.pools.get('one').create(spec);
    const held = Promise.withResolvers<void>();
    movesOf(node.pools.get('one')).give = async () => {
      await held.promise;
      throw new Error('the disk of this node is full');
    };
    const to = scratch.join('released-files');
    await node.mover.start(id, 'two', undefined);
    await eventually(async () => assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'closed'));
    await assert.rejects(node.admin.release({ id, to }, call), /is moving out of pool one/);
    assert.equal(existsSync(to), false);
    held.resolve();
  });
});
