import assert from 'node:assert/strict';
import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { Moves } from '../../src/pool/catalog/moves.ts';
import { DataLoss } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { digestIn, written } from './devices.ts';
import { Node, sized, spec, id as within } from './following-node.ts';
import { id, type NodeName } from './histories/place.ts';
import { World } from './histories/world.ts';
import { Broker, blockSpec, filled, MovingNode, order } from './two-nodes.ts';
import { isWhole, movesOf, refuseVolumes } from './two-pools.ts';

/* The copy of a volume where it was is damaged: no other copy goes for it of which all bytes have come, without a second word. */

const damaged = {
  code: 'FAILED_PRECONDITION',
  message: /has only 4096 of .* stays, as it may be the last one.* --pool-is-lost /,
};

describe('a volume whose copy in the pool that it leaves is damaged', () => {
  const damage = (scratch: Scratch) => truncateSync(scratch.join('data/pools/one/volumes', within, 'data'), 4096);

  /** All of it waits in pool two. @returns its digest */
  async function waiting(node: Node, isGiven: boolean): Promise<string> {
    const one = node.pools.get('one');
    await one.create(spec);
    const before = await written(node, within);
    if (isGiven) refuseVolumes(node.pools.get('two'));
    else {
      mock.method(movesOf(one), 'give', async () => {
        throw new Error('the disk has failed');
      });
    }
    await node.mover.start(within, 'two', undefined);
    await eventually(async () => {
      assert.ok(await isWhole(node.pools.get('two'), within));
      assert.ok(isGiven ? (await movesOf(one).stateOf(within)).why === 'given' : node.sight().job.state === 'failed');
    });
    return before;
  }

  for (const isGiven of [true, false]) {
    test(`keeps the one that waits beside it, and can become it: ${isGiven ? 'handed over' : 'failed'}`, async () => {
      using scratch = new Scratch('survivor');
      let before: string;
      {
        await using node = await Node.open(scratch);
        before = await waiting(node, isGiven);
        damage(scratch);
        await assert.rejects(node.mover.cancel(within), damaged);
        if (!isGiven) await assert.rejects(node.mover.start(within, 'plain', undefined), damaged);
        assert.ok(await isWhole(node.pools.get('two'), within));
      }
      await using node = await Node.open(scratch, [sized('two')]);
      await node.mover.finish(within, { lostPool: 'one' }, !isGiven);
      assert.equal(await digestIn(node, within), before);
    });
  }

  test('keeps it also weeks later, and loses it by a second word', async () => {
    using scratch = new Scratch('survivor');
    {
      await using node = await Node.open(scratch);
      await waiting(node, false);
      damage(scratch);
    }
    const path = scratch.join('data/moves', `${within}.json`);
    const endedAt = new Date(Date.now() - 30 * 86_400_000).toISOString();
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), endedAt }));
    await using node = await Node.open(scratch);
    assert.ok(await isWhole(node.pools.get('two'), within));
    await node.mover.cancel(within, undefined, undefined, true);
    assert.equal(await isWhole(node.pools.get('two'), within), false);
  });

  test('keeps it also if the note of its move is lost', async () => {
    using scratch = new Scratch('survivor');
    {
      await using node = await Node.open(scratch);
      await waiting(node, false);
      damage(scratch);
    }
    rmSync(scratch.join('data/moves'), { recursive: true });
    const verified = mock.method(Moves.prototype, 'verified');
    try {
      await using node = await Node.open(scratch);
      await eventually(() => assert.ok(verified.mock.callCount() > 0));
      await node.mover.stop();
      assert.ok(await isWhole(node.pools.get('two'), within));
    } finally {
      verified.mock.restore();
    }
  });
});

test('a whole copy goes for that on its node, which is well, if another move is ordered from there', async () => {
  using scratch = new Scratch('survivor');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a');
  await using b = await MovingNode.open(scratch, broker, 'b');
  await filled(a);
  const failing = mock.method(movesOf(a.pool), 'give', async () => {
    throw new DataLoss('a disk fails');
  });
  const first = await order(a, b, blockSpec.id);
  assert.equal((await b.ended(blockSpec.id)).job.state, 'failed');
  assert.ok(await isWhole(b.pool, blockSpec.id));
  failing.mock.restore();
  assert.notEqual(await order(a, b, blockSpec.id), first);
  assert.equal((await b.ended(blockSpec.id)).job.state, 'done');
});

describe('a volume whose copy on the node that it leaves is damaged', () => {
  const damage = (world: World) => {
    for (const { path } of world.disks.copiesOn('a', 'data', id)) truncateSync(path, 4096);
  };
  const cancel = (world: World, node: NodeName, evenSo = false) =>
    world.fleet.command({ change: 'cancel', volume: id, node, evenSo });
  const usable = async (world: World) => (await world.usable()).map(({ node, pool, version }) => [node, pool, version]);

  for (const isGiven of [true, false]) {
    test(`keeps the one that waits on the other node, and can become it: ${isGiven ? 'handed over' : 'fenced'}`, async () => {
      using scratch = new Scratch('survivor');
      await using world = await World.start(scratch);
      if (isGiven) world.refuseCommits({ node: 'b', pool: 'data' });
      else world.refuseGiving({ node: 'a', pool: 'data' });
      await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
      const state = () => movesOf(world.node('a').pools.get('data')).stateOf(id);
      await eventually(async () => {
        assert.ok(await isWhole(world.node('b').pools.get('data'), id));
        assert.equal((await state()).why, isGiven ? 'given' : 'closed');
      });
      damage(world);
      await assert.rejects(cancel(world, 'b'), damaged);
      assert.equal((await movesOf(world.node('b').pools.get('data')).noted(id)).generation, 0);
      await world.whileDown('a', () => {
        world.configured.get('a')?.delete('data');
        world.disks.takeOut('a', 'data');
      });
      await world.fleet.told();
      await world.fleet.command({ change: 'finish', volume: id, node: 'b', lostPool: 'data' });
      assert.deepEqual(await usable(world), [['b', 'data', 1]]);
    });
  }

  for (const isDamaged of [true, false]) {
    test(`${isDamaged ? 'keeps' : 'does not keep'} it also if it is ordered to another pool there, and is ${isDamaged ? '' : 'not '}damaged`, async () => {
      using scratch = new Scratch('survivor');
      await using world = await World.start(scratch);
      const failing = mock.method(movesOf(world.node('a').pools.get('data')), 'give', async () => {
        throw new DataLoss('a disk fails');
      });
      await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
      await eventually(() => assert.equal(world.node('b').sight(id).job.state, 'failed'));
      failing.mock.restore();
      await world.fleet.told();
      if (isDamaged) damage(world);
      const again = () => world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'other' });
      if (isDamaged) await assert.rejects(again(), damaged);
      else await again();
      await world.rest(10_000);
      assert.equal(await isWhole(world.node('b').pools.get('data'), id), isDamaged);
      if (!isDamaged) assert.deepEqual(await usable(world), [['b', 'other', 1]]);
    });
  }

  test('keeps it also once that node has ended the move', async () => {
    using scratch = new Scratch('survivor');
    await using world = await World.start(scratch);
    world.refuseGiving({ node: 'a', pool: 'data' });
    await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
    await eventually(async () => assert.ok(await isWhole(world.node('b').pools.get('data'), id)));
    await world.down('b');
    damage(world);
    await cancel(world, 'a');
    await world.up('b');
    await eventually(() => assert.equal(world.node('b').sight(id).job.state, 'failed'));
    await assert.rejects(cancel(world, 'b'), { message: /has a damaged copy of it.* may be the last copy, and stays/ });
    assert.ok(await isWhole(world.node('b').pools.get('data'), id));
    await cancel(world, 'b', true);
    assert.equal(await isWhole(world.node('b').pools.get('data'), id), false);
  });
});
