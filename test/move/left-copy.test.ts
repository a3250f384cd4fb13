import assert from 'node:assert/strict';
import { copyFileSync, rmSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { adminService } from '../../src/admin/service.ts';
import { trashRow } from '../../src/cli/output/tables/trash.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { digestIn, written } from './devices.ts';
import { call, id, mib, Node, sized, spec } from './following-node.ts';
import { volumeBytes } from './histories/disks.ts';
import { id as historyId } from './histories/place.ts';
import { World } from './histories/world.ts';
import { Broker, blockSpec, MovingNode } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

/* A copy that a volume has left lacks what was written since: it becomes the volume by a word that says so. */

const kept = volumeSpec('data', { content: { type: 'block' }, sizeBytes: 96n * mib, undeleteSeconds: 86_400 });
const [one, two, three] = [sized('one'), sized('two'), sized('three')];

const adminOf = ({ mover, objects, pools }: MovingNode | Node) =>
  adminService({ nodeId: 'node', pools, objects, mover });

async function moved(node: Node, to: string): Promise<void> {
  await node.mover.start(id, to, undefined);
  await eventually(() => assert.deepEqual([node.sight().job.state, node.sight().job.to], ['done', to]));
}

async function deleted(node: Node): Promise<void> {
  await node.controller.DeleteVolume?.({ volume_id: id, secrets: {} }, call);
}

/** The note of the move is gone: it was long ago. */
const forgetMove = (scratch: Scratch) => rmSync(scratch.join('data/moves'), { recursive: true });

const saved = (scratch: Scratch, name: string) =>
  copyFileSync(scratch.join(`${name}.img`), scratch.join(`${name}.old`));
const putBack = (scratch: Scratch, name: string) =>
  copyFileSync(scratch.join(`${name}.old`), scratch.join(`${name}.img`));

describe('a volume that has moved, and was deleted', () => {
  test('for good, is restored as it was at the switch by a second word alone, and the answer says so', async () => {
    using scratch = new Scratch('left');
    await using node = await Node.open(scratch);
    const admin = adminOf(node);
    await node.pools.get('one').create(spec);
    const then = await written(node, id);
    await moved(node, 'two');
    await written(node, id);
    await deleted(node);
    const [entry] = (await admin.listTrash({}, call)).volumes;
    assert.ok(entry?.left === true);
    assert.match(trashRow(entry, new Date()).join(' '), / ago, by a move /);
    await assert.rejects(admin.restore({ id }, call), {
      name: 'FailedPrecondition',
      message: new RegExp(
        `has moved since this copy of it in pool one, and was deleted then.* when it moved out of pool one, by ${entry.deletedAt}: .* --even-so\\.$`,
      ),
    });
    // Another pool that is away has nothing to do with it.
    await assert.rejects(admin.restore({ id, lostPool: 'far' }, call), { message: /was deleted then.* --even-so\.$/ });
    const { pool, problem } = await admin.restore({ id, evenSo: true }, call);
    assert.equal(pool, 'one');
    assert.match(problem ?? '', /^This copy is as the volume was when it moved out of pool one, by /);
    assert.equal(await digestIn(node, id), then);
  });

  for (const isKnown of [true, false]) {
    test(`is restored as it was at the switch only once the pool is called lost that may have the latest in its trash, ${isKnown ? 'while its move is remembered' : 'or by the second word later'}`, async () => {
      using scratch = new Scratch('left');
      let then: string;
      let latest: string;
      {
        await using node = await Node.open(scratch);
        await node.pools.get('one').create(kept);
        then = await written(node, id);
        await moved(node, 'two');
        latest = await written(node, id);
        await deleted(node);
      }
      if (!isKnown) forgetMove(scratch);
      {
        await using node = await Node.open(scratch, [one]);
        const admin = adminOf(node);
        const message = isKnown ? /has moved to pool two .* --pool-is-lost two\.$/ : /was deleted then.* --even-so\.$/;
        await assert.rejects(admin.restore({ id }, call), { name: 'FailedPrecondition', message });
        if (isKnown) await assert.rejects(admin.restore({ id, evenSo: true }, call), { message });
      }
      {
        // The pool is there again.
        await using node = await Node.open(scratch);
        const { pool, problem } = await adminOf(node).restore({ id }, call);
        assert.deepEqual([pool, problem], ['two', undefined]);
        assert.equal(await digestIn(node, id), latest);
        await deleted(node);
      }
      await using node = await Node.open(scratch, [one]);
      await adminOf(node).restore({ id, ...(isKnown ? { lostPool: 'two' } : { evenSo: true }) }, call);
      assert.equal(await digestIn(node, id), then);
    });
  }

  test('the same of a copy from a disk that was put back, which has no fence', async () => {
    using scratch = new Scratch('left');
    let first: string;
    {
      await using node = await Node.open(scratch);
      await node.pools.get('one').create(spec);
      first = await written(node, id);
    }
    saved(scratch, 'one');
    {
      await using node = await Node.open(scratch);
      await moved(node, 'two');
      await written(node, id);
    }
    putBack(scratch, 'one');
    {
      await using node = await Node.open(scratch);
      await node.mover.cancel(id);
      await deleted(node);
    }
    await using node = await Node.open(scratch);
    const admin = adminOf(node);
    assert.equal((await admin.listTrash({}, call)).volumes[0]?.left, true);
    await assert.rejects(admin.restore({ id }, call), {
      message: /before it moved, at a time that is not known: .* --even-so/,
    });
    const { problem } = await admin.restore({ id, evenSo: true }, call);
    assert.match(problem ?? '', /before it moved, at a time that is not known/);
    assert.equal(await digestIn(node, id), first);
  });
});

test('a copy of an earlier move than the last one takes a second word: a pool that is away may have a later one in its trash', async () => {
  using scratch = new Scratch('left');
  let first: string;
  let second: string;
  {
    await using node = await Node.open(scratch, [one, two, three]);
    await node.pools.get('one').create(spec);
    first = await written(node, id);
    await moved(node, 'two');
    second = await written(node, id);
    await moved(node, 'three');
    await written(node, id);
  }
  {
    await using node = await Node.open(scratch, [one]);
    const admin = adminOf(node);
    await assert.rejects(admin.restore({ id }, call), {
      message: /has moved to pool three .* --pool-is-lost three\.$/,
    });
    await assert.rejects(admin.restore({ id, lostPool: 'three' }, call), {
      name: 'FailedPrecondition',
      message: /has moved more than once since this copy .* --even-so\.$/,
    });
  }
  {
    saved(scratch, 'two');
    saved(scratch, 'one');
    await using node = await Node.open(scratch, [one, two]);
    await adminOf(node).restore({ id, lostPool: 'three' }, call);
    assert.equal(await digestIn(node, id), second);
  }
  putBack(scratch, 'one');
  await using node = await Node.open(scratch, [one]);
  await adminOf(node).restore({ id, lostPool: 'three', evenSo: true }, call);
  assert.equal(await digestIn(node, id), first);
});

test('a later copy in the trash of another pool becomes the volume although a disk was put back with an earlier one', async () => {
  using scratch = new Scratch('left');
  const all = [one, two, three];
  {
    await using node = await Node.open(scratch, all);
    await node.pools.get('one').create(spec);
    await written(node, id);
  }
  saved(scratch, 'one');
  let second: string;
  {
    await using node = await Node.open(scratch, all);
    await moved(node, 'three');
    second = await written(node, id);
    await moved(node, 'two');
    await written(node, id);
  }
  putBack(scratch, 'one');
  await using node = await Node.open(scratch, [one, three]);
  const admin = adminOf(node);
  assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'old');
  await assert.rejects(admin.restore({ id }, call), { message: /has moved to pool two .* --pool-is-lost two\.$/ });
  await admin.restore({ id, lostPool: 'two' }, call);
  assert.equal((await node.pools.require(id)).pool.name, 'three');
  assert.equal(await digestIn(node, id), second);
  await assert.rejects(admin.restore({ id }, call), { name: 'AlreadyExists' });
  await node.mover.cancel(id);
  assert.equal(await node.pools.get('one').find(id), undefined);
  assert.equal(await digestIn(node, id), second);
});

/** The volume of a world can come back from the trash. */
const historySpec = volumeSpec('history', {
  ...{ id: historyId, content: { type: 'block' }, sizeBytes: BigInt(volumeBytes), undeleteSeconds: 86_400 },
});

async function movedWithin(node: MovingNode, to: string): Promise<void> {
  await node.mover.start(historyId, to, undefined);
  await eventually(() =>
    assert.deepEqual([node.sight(historyId).job.state, node.sight(historyId).job.to], ['done', to]),
  );
}

async function stateIn(world: World, pool: string) {
  return (await movesOf(world.node('a').pools.get(pool)).stateOf(historyId)).why;
}

test('a deleted volume is not restored beside a later one with its id, which was handed over to another node', async () => {
  using scratch = new Scratch('left');
  await using world = await World.start(scratch);
  const a = world.node('a');
  await a.pools.get('data').remove(historyId);
  await a.pools.get('data').create(historySpec);
  await movedWithin(a, 'other');
  await a.pools.get('other').remove(historyId);
  await a.mover.forgetDeleted(historyId);
  // The time that it was made at tells them apart.
  await delay(10);
  await a.pools.get('data').create(historySpec);
  await world.fleet.told();
  world.refuseCommits({ node: 'b', pool: 'data' });
  await world.fleet.command({ change: 'move', volume: historyId, node: 'b', toPool: 'data' });
  await eventually(async () => assert.equal(await stateIn(world, 'data'), 'given'));
  await world.fleet.told();
  // The node's own disk is lost, too: the copies alone are left to say it.
  await world.whileDown('a', () => rmSync(scratch.join('data-a/leaving'), { recursive: true }));
  await assert.rejects(adminOf(world.node('a')).restore({ id: historyId }, call), {
    name: 'FailedPrecondition',
    message: /^pool data has a copy of volume .* that is no earlier one than a copy in the trash/,
  });
  assert.equal(await world.node('a').pools.get('other').find(historyId), undefined);
});

test('a later copy in the trash does not become the volume while that is moving to another node', async () => {
  using scratch = new Scratch('left');
  await using world = await World.start(scratch);
  const a = world.node('a');
  await a.pools.get('data').remove(historyId);
  await a.pools.get('data').create(historySpec);
  let saved = '';
  await world.whileDown('a', () => {
    saved = world.disks.save('a', 'data');
  });
  await movedWithin(world.node('a'), 'other');
  await movedWithin(world.node('a'), 'data');
  world.refuseGiving({ node: 'a', pool: 'data' });
  await world.fleet.told();
  await world.fleet.command({ change: 'move', volume: historyId, node: 'b', toPool: 'data' });
  await eventually(async () => assert.equal(await stateIn(world, 'data'), 'closed'));
  await world.whileDown('a', () => world.disks.bringBack('a', 'data', saved));
  assert.equal(await stateIn(world, 'data'), 'old');
  await assert.rejects(adminOf(world.node('a')).restore({ id: historyId, lostPool: 'data' }, call), {
    name: 'FailedPrecondition',
    message: /see holdfast move status/,
  });
  assert.equal(await world.node('a').pools.get('other').find(historyId), undefined);
});

test('a copy that its volume has left is not restored while a pod of the node uses the other one', async () => {
  using scratch = new Scratch('left');
  const broker = new Broker();
  const poolNames = ['data', 'other'];
  {
    await using node = await MovingNode.open(scratch, broker, 'a', { poolNames });
    await node.pool.create(blockSpec);
    await node.mover.start(blockSpec.id, 'other', undefined);
    assert.equal((await node.ended(blockSpec.id)).job.state, 'done');
  }
  const order = { id: blockSpec.id, lostPool: 'other' };
  {
    await using node = await MovingNode.open(scratch, broker, 'a', { staged: [blockSpec.id] });
    await assert.rejects(adminOf(node).restore(order, call), {
      name: 'FailedPrecondition',
      message: /is still staged on this node, from a pool that is not open any more/,
    });
    assert.equal(await node.pool.find(blockSpec.id), undefined);
  }
  await using node = await MovingNode.open(scratch, broker, 'a');
  await adminOf(node).restore(order, call);
  assert.equal((await node.pools.require(blockSpec.id)).pool.name, 'data');
});

test('a restore that was cut short behind the trash is finished by the same command', async () => {
  using scratch = new Scratch('left');
  let then: string;
  {
    await using node = await Node.open(scratch);
    await node.pools.get('one').create(spec);
    then = await written(node, id);
    await moved(node, 'two');
  }
  await using node = await Node.open(scratch, [one]);
  const admin = adminOf(node);
  const failing = mock.method(movesOf(node.pools.get('one')), 'takeBack', async () => {
    throw new Error('ENOSPC: no space left on device');
  });
  await assert.rejects(admin.restore({ id, lostPool: 'two' }, call), /ENOSPC/);
  failing.mock.restore();
  await assert.rejects(admin.restore({ id }, call), {
    name: 'FailedPrecondition',
    message: /pool one has a copy of volume .* that is not the volume.* holdfast move cancel .* the same command/,
  });
  await assert.rejects(admin.restore({ id, evenSo: true }, call), { message: /--pool-is-lost two/ });
  const { problem } = await admin.restore({ id, lostPool: 'two' }, call);
  assert.match(problem ?? '', /when it moved out of pool one: /);
  assert.equal(await digestIn(node, id), then);
});
