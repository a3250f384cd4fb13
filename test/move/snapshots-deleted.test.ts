import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { showMove } from '../../src/admin/moving.ts';
import { Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { idOf } from './following-node.ts';
import { FollowingNodes, followed, id, listed, remove, requireDigests, withSnapshots } from './following-nodes.ts';
import type { MovingNode } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

const young = idOf('young');
const snapshotsOf = ({ pool }: MovingNode) => movesOf(pool).snapshots;

/** `young` has arrived on node b, and node a has not heard of that. @returns the digests */
async function unheard(nodes: FollowingNodes) {
  const digests = await withSnapshots(nodes.get('a'));
  const deaf = mock.method(snapshotsOf(nodes.get('a')), 'settle', async () => {
    throw new Unavailable('node a is deaf.');
  });
  await nodes.order('a', 'b');
  await eventually(() => assert.equal(followed(nodes.get('b'))?.trouble, 'node a is deaf.'));
  return { digests, hear: () => deaf.mock.restore() };
}

/** No copy of it is anywhere, nor comes one back with a disk. */
async function requireNowhere(nodes: FollowingNodes, name: string): Promise<void> {
  for (const node of [nodes.get('a'), nodes.get('b')]) {
    assert.ok(!(await listed(node)).includes(name), `${name} is on node ${node.name}`);
    assert.equal(snapshotsOf(node).find(idOf(name)), undefined, node.name);
    assert.ok(!(await snapshotsOf(node).arriving()).includes(idOf(name)), node.name);
    const left = node.mover.sights().flatMap((sight) => showMove(sight).snapshots?.left ?? []);
    assert.ok(!left.some((each) => each.name === name && each.cameFrom !== undefined), node.name);
  }
}

describe('a snapshot that was deleted while it followed its volume to another node does not come back', () => {
  test('where it had arrived, and was taken back and deleted as that node was taken for lost', async () => {
    using scratch = new Scratch('snapshots-deleted');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const { digests, hear } = await unheard(nodes);
    await nodes.stop('b');
    hear();
    const a = nodes.get('a');
    await a.mover.cancel(id, { lostNode: 'b' });
    const { createdAt = assert.fail() } = (await a.pool.findSnapshot(young)) ?? {};
    await remove(a, 'young');
    const b = await nodes.start('b');
    assert.deepEqual(await listed(b), ['young']);
    await nodes.meet();
    assert.equal((await nodes.ended()).state, 'failed');
    await requireNowhere(nodes, 'young');
    // Another one that was taken under its name is not meant.
    assert.ok(await a.snapshotLeavings.wasRemoved(id, young, createdAt));
    assert.ok(!(await a.snapshotLeavings.wasRemoved(id, young, new Date().toISOString())));
    await nodes.order('a', 'b');
    assert.deepEqual((await nodes.ended()).snapshots.left, []);
    assert.deepEqual([await listed(a), await listed(b)], [[], ['middle', 'old']]);
    const { middle, old } = digests;
    await requireDigests(b, { middle, old });
    await requireNowhere(nodes, 'young');
  });

  test('where it arrives only after that', async () => {
    using scratch = new Scratch('snapshots-deleted');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    await withSnapshots(nodes.get('a'));
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    const target = snapshotsOf(b);
    const receive = target.receive.bind(target);
    let isDeleted = false;
    mock.method(target, 'receive', async (...args: Parameters<typeof receive>) => {
      const incoming = await receive(...args);
      const commit = incoming.commit.bind(incoming);
      incoming.commit = async (...own: Parameters<typeof commit>) => {
        if (!isDeleted) {
          await a.mover.cancel(id, { lostNode: 'b' });
          await remove(a, 'young');
        }
        isDeleted = true;
        return commit(...own);
      };
      return incoming;
    });
    await nodes.order('a', 'b');
    await nodes.ended();
    assert.ok(isDeleted);
    await requireNowhere(nodes, 'young');
    assert.deepEqual([await listed(a), await listed(b)], [['middle', 'old'], []]);
  });

  test('where all of it has come, and waits as its first node was taken for lost', async () => {
    using scratch = new Scratch('snapshots-deleted');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const digests = await withSnapshots(nodes.get('a'));
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    const keeps = mock.method(snapshotsOf(a), 'give', async () => {
      throw new Unavailable('node a hands nothing over.');
    });
    await nodes.order('a', 'b');
    await eventually(() => assert.equal(followed(b)?.trouble, 'node a hands nothing over.'));
    await b.mover.cancel(id, { lostNode: 'a' });
    await remove(a, 'young');
    keeps.mock.restore();
    assert.deepEqual(await snapshotsOf(b).arriving(), [young]);
    await nodes.order('a', 'b');
    assert.equal((await nodes.ended()).state, 'done');
    await requireNowhere(nodes, 'young');
    const { middle, old } = digests;
    await requireDigests(b, { middle, old });
  });

  test('where its deletion was cut short, once that is tried again: it is not handed over meanwhile', async () => {
    using scratch = new Scratch('snapshots-deleted');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const digests = await withSnapshots(nodes.get('a'));
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    await nodes.order('a', 'b', 4n << 20n);
    await eventually(() => assert.ok((followed(b)?.progress?.doneBytes ?? 0n) > 0n));
    const cut = mock.method(a.pool, 'removeSnapshot', async () => {
      throw new Unavailable('its disk does not answer.');
    });
    await assert.rejects(remove(a, 'young'), { message: /its disk does not answer/ });
    cut.mock.restore();
    await nodes.ended();
    assert.deepEqual([await listed(a), await listed(b)], [['young'], ['middle', 'old']]);
    await requireDigests(a, { young: digests.young });
    await remove(a, 'young');
    await requireNowhere(nodes, 'young');
  });

  test('where its first node had lost its own disk meanwhile', async () => {
    using scratch = new Scratch('snapshots-deleted');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    await withSnapshots(nodes.get('a'));
    const keeps = mock.method(snapshotsOf(nodes.get('a')), 'give', async () => {
      throw new Unavailable('node a hands nothing over.');
    });
    await nodes.order('a', 'b');
    await eventually(() => assert.equal(followed(nodes.get('b'))?.trouble, 'node a hands nothing over.'));
    await nodes.stop('a');
    keeps.mock.restore();
    rmSync(scratch.join('data-a'), { recursive: true });
    const a = await nodes.start('a');
    const moveId = followed(nodes.get('b'))?.job.moveId ?? assert.fail();
    await a.snapshotLeavings.admit({ id, moveId, node: 'b' }, 'again');
    await remove(a, 'young');
    await nodes.meet();
    const { reason, state } = await nodes.ended();
    assert.deepEqual([state, reason], ['done', undefined]);
    await requireNowhere(nodes, 'young');
  });

  test('on the node that it has left, where it was deleted on the other one before that has heard of it', async () => {
    for (const order of ['cancel', 'again'] as const) {
      using scratch = new Scratch('snapshots-deleted');
      await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
      const { digests, hear } = await unheard(nodes);
      const b = nodes.get('b');
      await b.mover.cancel(id, { lostNode: 'a' });
      await remove(b, 'young');
      hear();
      if (order === 'again') {
        await nodes.order('a', 'b');
        await nodes.ended();
      } else assert.equal((await b.mover.cancel(id)).state, 'cancelled');
      await requireNowhere(nodes, 'young');
      const { middle, old } = digests;
      await requireDigests(order === 'again' ? b : nodes.get('a'), { middle, old });
    }
  });

  test('where two of them are deleted at a time', async () => {
    using scratch = new Scratch('snapshots-deleted');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    await withSnapshots(nodes.get('a'));
    await nodes.order('a', 'b', 2n << 20n);
    await eventually(() => assert.ok((followed(nodes.get('b'))?.progress?.doneBytes ?? 0n) > 0n));
    const { snapshotLeavings } = nodes.get('a');
    const createdAt = new Date().toISOString();
    const names = ['old', 'middle'].map(idOf);
    await Promise.all(names.map((name) => snapshotLeavings.removing(id, name, createdAt)));
    await nodes.stop('a');
    const again = await nodes.start('a');
    const noted = names.map((name) => again.snapshotLeavings.isRemoving(id, name, createdAt));
    assert.deepEqual(noted, [true, true]);
  });
});

test('a snapshot that has arrived on a node which was taken for lost meanwhile goes there, as its order ends', async () => {
  using scratch = new Scratch('snapshots-lost');
  await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
  const { digests, hear } = await unheard(nodes);
  const [a, b] = [nodes.get('a'), nodes.get('b')];
  await a.mover.cancel(id, { lostNode: 'b' });
  hear();
  assert.equal((await nodes.ended()).state, 'failed');
  assert.deepEqual([await listed(a), await listed(b)], [['middle', 'old', 'young'], []]);
  await requireDigests(a, digests);
});
