import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, rmSync, truncateSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { idOf, refuseCommits } from './following-node.ts';
import { FollowingNodes, followed, id, listed, remove, requireDigests, withSnapshots } from './following-nodes.ts';
import type { MovingNode } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

const all = ['middle', 'old', 'young'];
const young = idOf('young');
const both = { poolNames: ['data', 'second'] } as const;
const arriving = ({ pool }: MovingNode) => movesOf(pool).snapshots.arriving();

/** All of `young` is on node b, and handed over to it. @param isCommitted it is the snapshot there, and node a has not heard of it */
async function handedOver(nodes: FollowingNodes, isCommitted = false) {
  await nodes.start('a');
  const b = await nodes.start('b', both);
  const digests = await withSnapshots(nodes.get('a'));
  const refuse = async () => {
    throw new Unavailable('node a is deaf.');
  };
  const deaf = mock.method(movesOf(nodes.get('a').pool).snapshots, 'settle', refuse);
  if (!isCommitted) refuseCommits(b.pool);
  await nodes.order('a', 'b');
  const trouble = isCommitted ? 'node a is deaf.' : 'pool data is full.';
  await eventually(() => assert.equal(followed(b)?.trouble, trouble));
  deaf.mock.restore();
  return digests;
}

/** Node b starts with these pools alone. */
async function restart(nodes: FollowingNodes, poolNames: readonly string[]): Promise<MovingNode> {
  await nodes.stop('b');
  return nodes.start('b', { poolNames });
}

/** Its order has ended at node b, and node a alone cannot end it. */
async function requireEnded(nodes: FollowingNodes): Promise<void> {
  await nodes.meet();
  const { reason, state } = await nodes.ended();
  assert.equal(state, 'failed');
  assert.match(reason ?? '', /There is no pool 'data' on this node/);
  await assert.rejects(nodes.get('a').mover.cancel(id), /was handed over to node b: cancel the move there/);
}

describe('a snapshot that was handed over to a node which has lost the pool that it goes to', () => {
  test('goes where it was, too, if it was deleted on that node before the cancel, and does not come back with that pool', async () => {
    using scratch = new Scratch('snapshots-target');
    await using nodes = new FollowingNodes(scratch);
    await handedOver(nodes, true);
    const b = await restart(nodes, ['second']);
    await requireEnded(nodes);
    const a = nodes.get('a');
    // Kubernetes asks again and again.
    await assert.rejects(remove(a, 'young'), { name: 'Unavailable', message: /is being handed over/ });
    await remove(b, 'young');
    const { snapshots, state } = await b.mover.cancel(id);
    assert.deepEqual([state, snapshots?.left.map(({ name }) => name).sort()], ['cancelled', ['middle', 'old']]);
    assert.equal(movesOf(a.pool).snapshots.find(young), undefined);
    await remove(a, 'young');
    assert.deepEqual(await listed(a), ['middle', 'old']);
    assert.deepEqual(await listed(await restart(nodes, both.poolNames)), []);
  });

  for (const isCommitted of [false, true]) {
    const words = isCommitted ? ', where it had arrived' : '';
    test(`is where it was once that node cancels it, without that pool${words}; nothing stays in it`, async () => {
      using scratch = new Scratch('snapshots-target');
      await using nodes = new FollowingNodes(scratch);
      const digests = await handedOver(nodes, isCommitted);
      const b = await restart(nodes, ['second']);
      await requireEnded(nodes);
      assert.equal((await b.mover.cancel(id)).state, 'cancelled');
      const a = nodes.get('a');
      assert.deepEqual([await listed(a), followed(b)?.job.snapshots.waiting], [all, undefined]);
      await requireDigests(a, digests);
      await assert.rejects(b.mover.cancel(id), { name: 'NotFound' });
      const again = await restart(nodes, both.poolNames);
      await eventually(async () => {
        assert.deepEqual(await arriving(again), []);
        assert.equal(movesOf(again.pool).snapshots.find(young), undefined);
      });
      assert.deepEqual(await listed(again), []);
      await nodes.order('a', 'b');
      assert.deepEqual((await nodes.ended()).snapshots.left, []);
      assert.deepEqual(await listed(a), []);
      await requireDigests(again, digests);
    });
  }

  test('is where it was by a second word while that pool is not open; what is in it goes then', async () => {
    using scratch = new Scratch('snapshots-target');
    await using nodes = new FollowingNodes(scratch);
    const digests = await handedOver(nodes);
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    const second = b.pools.get('second');
    const closed = mock.method(b.pools, 'all', () => [second]);
    await assert.rejects(b.mover.cancel(id), { name: 'Unavailable', message: /pool data .* is not open.*--even-so/ });
    assert.deepEqual(await listed(a), ['middle', 'old']);
    assert.equal((await b.mover.cancel(id, undefined, undefined, true)).state, 'cancelled');
    assert.deepEqual(await listed(a), all);
    await requireDigests(a, digests);
    assert.deepEqual(await arriving(b), [young]);
    closed.mock.restore();
    await eventually(async () => assert.deepEqual(await arriving(b), []));
    await requireDigests(a, digests);
  });

  test('takes a second word if the copy where it was lacks data; the one in that pool stays', async () => {
    using scratch = new Scratch('snapshots-target');
    await using nodes = new FollowingNodes(scratch);
    await handedOver(nodes);
    truncateSync(scratch.join('data-a/pools/data', 'snapshots', young, 'data'), 4096);
    const b = await restart(nodes, ['second']);
    await requireEnded(nodes);
    await assert.rejects(b.mover.cancel(id), {
      name: 'FailedPrecondition',
      message: /node a has not all data of .* and pool data of this node may have all of it.*--even-so/,
    });
    assert.deepEqual(await listed(nodes.get('a')), ['middle', 'old']);
    assert.equal((await b.mover.cancel(id, undefined, undefined, true)).state, 'cancelled');
    assert.deepEqual(await listed(nodes.get('a')), all);
    // Nothing is noted by which it would go once its pool is there.
    assert.ok(!existsSync(scratch.join('data-b', 'deleted-snapshots')));
    const again = await restart(nodes, both.poolNames);
    assert.deepEqual(await arriving(again), [young]);
  });

  test('is where it was by the order alone if its disk is an empty one; the order waits while its node does not answer', async () => {
    using scratch = new Scratch('snapshots-target');
    await using nodes = new FollowingNodes(scratch);
    const digests = await handedOver(nodes);
    await nodes.stop('b');
    rmSync(scratch.join('b.img'));
    rmSync(scratch.join('data-b/pools/data.id'), { force: true });
    const a = nodes.get('a');
    const silent = mock.method(movesOf(a.pool).snapshots, 'takeBack', async () => {
      throw new Unavailable('its disk does not answer.');
    });
    const b = await nodes.start('b', both);
    await nodes.meet();
    await eventually(() => assert.match(followed(b)?.trouble ?? '', /has no copy of it any more/));
    assert.equal(followed(b)?.job.state, 'running');
    silent.mock.restore();
    await nodes.ended();
    assert.ok((await listed(a)).includes('young'));
    await requireDigests(a, { young: digests.young });
  });

  for (const isCommitted of [false, true]) {
    const words = isCommitted ? 'stays where it has arrived' : 'is where it was';
    test(`${words} once a node cancels it that has lost all that it knew of it; the first one says that it waits`, async () => {
      using scratch = new Scratch('snapshots-target');
      await using nodes = new FollowingNodes(scratch);
      const { young: digest, ...others } = await handedOver(nodes, isCommitted);
      await nodes.stop('b');
      rmSync(scratch.join('data-b'), { recursive: true });
      const [a, b] = [nodes.get('a'), await nodes.start('b', both)];
      const [shown] = a.mover.sights().flatMap(({ snapshots }) => snapshots?.job.snapshots.left ?? []);
      assert.match(`${shown?.name} ${shown?.reason}`, /^young it was handed over to node b.*move cancel .* --node,/);
      await assert.rejects(a.mover.cancel(id), /was handed over to node b: cancel the move there/);
      const move = { id, moveId: randomUUID(), node: 'a' };
      await a.snapshotLeavings.admit({ ...move, node: 'b' }, 'again');
      b.nodes.connect('a', { host: '127.0.0.1', port: a.port });
      assert.equal((await b.mover.cancelSnapshotsFrom(move, false)).state, 'cancelled');
      await assert.rejects(b.mover.cancelSnapshotsFrom({ ...move, moveId: randomUUID() }, false));
      const there = isCommitted ? [['middle', 'old'], ['young']] : [all, []];
      assert.deepEqual([await listed(a), await listed(b), await arriving(b)], [...there, []]);
      await requireDigests(isCommitted ? b : a, { young: digest });
      await requireDigests(a, others);
      assert.ok(
        a.mover.sights().every(({ snapshots }) => snapshots === undefined || snapshots.job.state !== 'running'),
      );
    });
  }
});
