import assert from 'node:assert/strict';
import { copyFileSync, cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { Pool } from '../../src/pool/pool.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { digestIn, written } from './devices.ts';
import { id, Node, sized, spec } from './following-node.ts';
import { Broker, blockSpec, filled, introduce, MovingNode, order } from './two-nodes.ts';
import { isWhole, movesOf, refuseVolumes } from './two-pools.ts';

/* All of a volume waits where it goes, and that may be its last copy: nothing removes it without an operator's second word. */

/** From now on the pool hands no volume over: each try fails once `fail` is called. */
function holdBack(pool: Pool): { readonly fail: () => void; readonly end: () => void } {
  const moves = movesOf(pool);
  const { give } = moves;
  const held = Promise.withResolvers<void>();
  moves.give = async () => {
    await held.promise;
    throw new Error('the disk of the node is full');
  };
  return {
    fail: held.resolve,
    end: () => {
      moves.give = give;
    },
  };
}

describe('a disk that comes back with an earlier fence', () => {
  for (const how of ['resumed', 'cancelled, and ordered again'] as const) {
    test(`of the move to another pool, which was ${how}: the copy that waits becomes the volume`, async () => {
      using scratch = new Scratch('last-copy');
      let latest: string;
      {
        await using node = await Node.open(scratch);
        const { pools } = node;
        await pools.get('one').create(spec);
        await written(node, id);
        const giving = holdBack(pools.get('one'));
        await node.mover.start(id, 'two', undefined);
        await eventually(async () => assert.ok(await isWhole(pools.get('two'), id)));
        copyFileSync(scratch.join('one.img'), scratch.join('one.old'));
        giving.fail();
        await eventually(() => assert.equal(node.sight().job.state, 'failed'));
        giving.end();
        if (how !== 'resumed') await node.mover.cancel(id);
        latest = await written(node, id);
        refuseVolumes(pools.get('two'));
        await node.mover.start(id, 'two', undefined);
        await eventually(async () => assert.equal((await movesOf(pools.get('one')).stateOf(id)).why, 'given'));
        await eventually(() => assert.ok(node.sight().trouble !== undefined));
      }
      copyFileSync(scratch.join('one.old'), scratch.join('one.img'));
      await using node = await Node.open(scratch);
      const [one, two] = [node.pools.get('one'), node.pools.get('two')];
      assert.equal((await movesOf(one).stateOf(id)).mark.fence?.isGiven, false);
      for (let time = 0; time < 2; time++) {
        await assert.rejects(node.mover.cancel(id), {
          name: 'FailedPrecondition',
          message: /may be the last copy, and stays.* holdfast move finish .* --pool-is-lost one.* --even-so/,
        });
      }
      assert.ok(await isWhole(two, id));
      assert.equal((await node.mover.finish(id, { lostPool: 'one' })).state, 'done');
      assert.equal(await digestIn(node, id), latest);
    });
  }

  test('of the move to another node: the copy that waits there stays', async () => {
    using scratch = new Scratch('last-copy');
    const broker = new Broker();
    let moveId: string;
    {
      await using a = await MovingNode.open(scratch, broker, 'a', { fenceTimeoutMs: 1_000 });
      await filled(a);
      const giving = holdBack(a.pool);
      {
        await using b = await MovingNode.open(scratch, broker, 'b');
        moveId = await order(a, b, blockSpec.id);
        await eventually(async () => assert.ok(await isWhole(b.pool, blockSpec.id)));
        cpSync(scratch.join('a'), scratch.join('a-old'), { recursive: true });
        giving.fail();
      }
      // Its target is silent.
      await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(blockSpec.id)).why, undefined));
      await written(a, blockSpec.id);
    }
    {
      await using a = await MovingNode.open(scratch, broker, 'a');
      await using b = await MovingNode.open(scratch, broker, 'b');
      refuseVolumes(b.pool);
      const again = { id: blockSpec.id, moveId };
      await introduce(a, b, again, 'order');
      const ticket = { to: undefined, ticket: 'ticket', limitBytesPerSecond: undefined };
      if (b.sight(blockSpec.id).job.state !== 'running') await b.mover.startFrom({ ...again, node: 'a', ...ticket });
      await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(blockSpec.id)).why, 'given'));
      assert.ok(await isWhole(b.pool, blockSpec.id));
    }
    rmSync(scratch.join('a'), { recursive: true });
    cpSync(scratch.join('a-old'), scratch.join('a'), { recursive: true });
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await introduce(a, b, { id: blockSpec.id, moveId });
    await eventually(() =>
      assert.rejects(b.mover.cancel(blockSpec.id), {
        name: 'FailedPrecondition',
        message: /may be the last copy, and stays/,
      }),
    );
    assert.ok(await isWhole(b.pool, blockSpec.id));
    assert.equal((await movesOf(a.pool).stateOf(blockSpec.id)).why, 'given');
  });
});

test('all of a volume stays where two other disks are old ones; the second word removes it, and the later of them becomes the volume', async () => {
  using scratch = new Scratch('last-copy');
  const all = [sized('one'), sized('two'), sized('three')];
  const saved = (name: string) => copyFileSync(scratch.join(`${name}.img`), scratch.join(`${name}.old`));
  let later: string;
  {
    await using node = await Node.open(scratch, all);
    await node.pools.get('three').create(spec);
    await written(node, id);
  }
  saved('three');
  {
    await using node = await Node.open(scratch, all);
    await node.mover.start(id, 'one', undefined);
    await eventually(() => assert.equal(node.sight().job.state, 'done'));
    later = await written(node, id);
  }
  saved('one');
  {
    await using node = await Node.open(scratch, all);
    await written(node, id);
    refuseVolumes(node.pools.get('two'));
    await node.mover.start(id, 'two', undefined);
    await eventually(async () => assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'given'));
    assert.ok(await isWhole(node.pools.get('two'), id));
  }
  for (const name of ['one', 'three']) copyFileSync(scratch.join(`${name}.old`), scratch.join(`${name}.img`));
  await using node = await Node.open(scratch, all);
  await assert.rejects(node.mover.cancel(id), {
    name: 'FailedPrecondition',
    message: /may be the last copy, and stays/,
  });
  assert.ok(await isWhole(node.pools.get('two'), id));
  await node.mover.cancel(id, undefined, undefined, true);
  assert.ok(!(await isWhole(node.pools.get('two'), id)));
  await assert.rejects(node.mover.cancel(id), {
    name: 'FailedPrecondition',
    message: /has an earlier copy .*--even-so/,
  });
  await node.mover.cancel(id, undefined, undefined, true);
  assert.equal(await digestIn(node, id), later);
});

describe('a whole copy that was not handed over', () => {
  async function whole(scratch: Scratch): Promise<void> {
    await using node = await Node.open(scratch);
    await node.pools.get('one').create(spec);
    await written(node, id);
    holdBack(node.pools.get('one')).fail();
    await node.mover.start(id, 'two', undefined);
    await eventually(() => assert.equal(node.sight().job.state, 'failed'));
    assert.ok(await isWhole(node.pools.get('two'), id));
  }

  test('is not removed by the driver where the first pool has an empty disk by then', async () => {
    using scratch = new Scratch('last-copy');
    await whole(scratch);
    rmSync(scratch.join('one.img'));
    rmSync(scratch.join('data/pools/one.id'));
    for (let start = 0; start < 2; start++) {
      await using node = await Node.open(scratch);
      assert.equal(node.sight().job.state, 'failed');
      assert.ok(await isWhole(node.pools.get('two'), id));
    }
    await using node = await Node.open(scratch);
    assert.equal((await node.mover.finish(id, { lostPool: 'one' }, true)).state, 'done');
  });

  test('keeps its note for longer than a week, also while its pool is out of the configuration', async () => {
    using scratch = new Scratch('last-copy');
    await whole(scratch);
    const path = scratch.join('data', 'moves', `${id}.json`);
    const long = new Date(Date.now() - 8 * 86_400_000).toISOString();
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), endedAt: long, startedAt: long }));
    for (const name of ['two', 'three']) {
      await using _node = await Node.open(scratch, [sized(name)]);
      assert.ok(existsSync(path), name);
    }
    await using node = await Node.open(scratch, [sized('two')]);
    assert.equal((await node.mover.finish(id, { lostPool: 'one' }, true)).state, 'done');
  });
});

describe('all of a volume on its way back to a node, another pool of which has an old disk', () => {
  const poolNames = ['data', 'other'];

  /** It was handed over by node a. @returns the id of the move, and the time of the volume */
  async function handedOver(scratch: Scratch, broker: Broker) {
    {
      await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
      await b.pools.get('other').create(blockSpec);
      await written(b, blockSpec.id);
    }
    cpSync(scratch.join('b-other'), scratch.join('b-other-old'), { recursive: true });
    let told: { readonly moveId: string; readonly createdAt: string | undefined; readonly latest: string };
    {
      await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
      await using a = await MovingNode.open(scratch, broker, 'a');
      const createdAt = (await b.pools.get('other').find(blockSpec.id))?.createdAt;
      await order(b, a, blockSpec.id);
      assert.equal((await a.ended(blockSpec.id)).job.state, 'done');
      const latest = await written(a, blockSpec.id);
      refuseVolumes(b.pool);
      const moveId = await order(a, b, blockSpec.id);
      await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(blockSpec.id)).why, 'given'));
      await eventually(async () => assert.ok(await isWhole(b.pool, blockSpec.id)));
      told = { moveId, createdAt, latest };
    }
    rmSync(scratch.join('b-other'), { recursive: true });
    cpSync(scratch.join('b-other-old'), scratch.join('b-other'), { recursive: true });
    return told;
  }

  test('has not arrived: a cancel keeps it, and it becomes the volume', async () => {
    using scratch = new Scratch('last-copy');
    const broker = new Broker();
    const { latest } = await handedOver(scratch, broker);
    await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
    await assert.rejects(b.mover.cancel(blockSpec.id, { lostNode: 'a', isComing: true }), {
      name: 'FailedPrecondition',
      message: /may be the last copy, and stays/,
    });
    assert.equal((await b.mover.finish(blockSpec.id, { lostNode: 'a' })).state, 'done');
    assert.equal(await digestIn(b, blockSpec.id), latest);
  });

  test('goes on where the controller says that a third node had a copy that was later than the old one', async () => {
    using scratch = new Scratch('last-copy');
    const broker = new Broker();
    const { createdAt, latest, moveId } = await handedOver(scratch, broker);
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
    const at = new Date().toISOString();
    assert.equal(await b.mover.copies.outdate(blockSpec.id, { generation: 1, node: 'c', at, createdAt }), true);
    await introduce(a, b, { id: blockSpec.id, moveId });
    assert.equal((await b.ended(blockSpec.id)).job.state, 'done');
    assert.equal(await digestIn(b, blockSpec.id), latest);
  });
});
