import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { idOf, refuseCommits } from './following-node.ts';
import { FollowingNodes, followed, id, listed, requireDigests, withSnapshots } from './following-nodes.ts';
import type { MovingNode } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

const all = ['middle', 'old', 'young'];
const forgotten = /knows nothing of this move: order it again/;

/** From now on the node fences no snapshot but `young`: that one moves, and the others wait. */
function refuseFences({ pool }: MovingNode): void {
  const { snapshots } = movesOf(pool);
  const close = snapshots.close.bind(snapshots);
  mock.method(snapshots, 'close', async (...args: Parameters<typeof close>) => {
    if (args[0] === idOf('young')) return close(...args);
    throw new Unavailable('the disk is slow.');
  });
}

/** `young` has moved to node b, and the others are about to. @returns the digests */
async function betweenTwo(nodes: FollowingNodes) {
  const digests = await withSnapshots(nodes.get('a'));
  refuseFences(nodes.get('a'));
  await nodes.order('a', 'b');
  await eventually(() => assert.equal(followed(nodes.get('b'))?.trouble, 'the disk is slow.'));
  return digests;
}

async function loseOwnDisk(scratch: Scratch, nodes: FollowingNodes): Promise<MovingNode> {
  await nodes.stop('a');
  rmSync(scratch.join('data-a'), { recursive: true });
  return nodes.start('a');
}

/** As when the controller has asked node a, before node b comes. */
async function refused(nodes: FollowingNodes): Promise<void> {
  const [a, b] = [nodes.get('a'), nodes.get('b')];
  const moveId = followed(b)?.job.moveId ?? assert.fail();
  await assert.rejects(a.snapshotLeavings.admit({ id, moveId, node: 'b' }, 'again'), forgotten);
  b.nodes.connect('a', { host: '127.0.0.1', port: a.port });
}

describe('snapshots that follow their volume to another node, where the first one has forgotten that', () => {
  test('end at the other one, which hears why, and the same order goes on', async () => {
    using scratch = new Scratch('snapshots-forgotten');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const { young, ...others } = await betweenTwo(nodes);
    await loseOwnDisk(scratch, nodes);
    await nodes.meet();
    const { reason, snapshots, state } = await nodes.ended();
    assert.deepEqual([state, snapshots.moved], ['failed', 1]);
    assert.match(reason ?? '', forgotten);
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    assert.deepEqual([await listed(a), await listed(b)], [['middle', 'old'], ['young']]);
    await requireDigests(a, others);
    await requireDigests(b, { young });
    await nodes.order('a', 'b');
    assert.equal((await nodes.ended()).state, 'done');
    await requireDigests(b, { young, ...others });
  });

  test('are cancelled there, too', async () => {
    using scratch = new Scratch('snapshots-forgotten');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    await betweenTwo(nodes);
    await loseOwnDisk(scratch, nodes);
    await refused(nodes);
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    assert.equal((await b.mover.cancel(id)).state, 'cancelled');
    assert.equal(followed(b)?.job.state, 'cancelled');
    assert.deepEqual([await listed(a), await listed(b)], [['middle', 'old'], ['young']]);
  });

  test('end there also after a day without a word of that node', async () => {
    using scratch = new Scratch('snapshots-forgotten');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    await betweenTwo(nodes);
    await nodes.stop('a');
    await nodes.start('a');
    const now = performance.now.bind(performance);
    const later = mock.method(performance, 'now', () => now() + 86_400_000);
    await refused(nodes);
    later.mock.restore();
    nodes.get('b').mover.connected('a');
    const { reason, state } = await nodes.ended();
    assert.equal(state, 'failed');
    assert.match(reason ?? '', forgotten);
  });

  test('go on if one was handed over, once the pool is open that says so; no third node gets it meanwhile', async () => {
    using scratch = new Scratch('snapshots-forgotten');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const digests = await withSnapshots(nodes.get('a'));
    const allow = refuseCommits(nodes.get('b').pool);
    await nodes.order('a', 'b');
    const b = nodes.get('b');
    await eventually(() => assert.equal(followed(b)?.trouble, 'pool data is full.'));
    const a = await loseOwnDisk(scratch, nodes);
    const move = { id, moveId: followed(b)?.job.moveId ?? assert.fail(), node: 'b' };
    const opening = [mock.method(a.pools, 'all', () => []), mock.method(a.pools, 'areAllOpen', () => false)];
    await assert.rejects(a.snapshotLeavings.admit(move, 'again'), { name: 'Unavailable', message: /is not open/ });
    for (const each of opening) each.mock.restore();
    const other = { id, moveId: randomUUID(), node: 'c' };
    await assert.rejects(a.snapshotLeavings.admit(other, 'order'), /are following it to node b/);
    allow();
    await nodes.meet();
    assert.equal((await nodes.ended()).state, 'done');
    assert.deepEqual([await listed(a), await listed(b)], [[], all]);
    await requireDigests(b, digests);
  });

  test('are not called forgotten by a look at the pools that came before one of them opened', async () => {
    using scratch = new Scratch('snapshots-forgotten');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    await withSnapshots(nodes.get('a'));
    refuseCommits(nodes.get('b').pool);
    await nodes.order('a', 'b');
    const b = nodes.get('b');
    await eventually(() => assert.equal(followed(b)?.trouble, 'pool data is full.'));
    const { pools, snapshotLeavings } = await loseOwnDisk(scratch, nodes);
    const move = { id, moveId: followed(b)?.job.moveId ?? assert.fail(), node: 'b' };
    // It opens behind the first look, which comes before anything is awaited.
    let isOpen = false;
    const all = pools.all();
    mock.method(pools, 'areAllOpen', () => isOpen);
    mock.method(pools, 'firstClosed', () => (isOpen ? undefined : 'data'));
    mock.method(pools, 'all', () => {
      const found = isOpen ? all : [];
      isOpen = true;
      return found;
    });
    const asked = snapshotLeavings.admit(move, 'again');
    await assert.rejects(asked, { name: 'Unavailable', message: /is not open/ });
    await snapshotLeavings.admit(move, 'again');
  });

  test('are not cancelled at the first one while a pool of it is not open, which may have one that was handed over', async () => {
    using scratch = new Scratch('snapshots-forgotten');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    await withSnapshots(nodes.get('a'));
    const allow = refuseCommits(nodes.get('b').pool);
    await nodes.order('a', 'b');
    await eventually(() => assert.equal(followed(nodes.get('b'))?.trouble, 'pool data is full.'));
    const a = nodes.get('a');
    const closed = mock.method(a.pools, 'all', () => []);
    await assert.rejects(a.mover.cancel(id), { name: 'Unavailable', message: /pool data is not open, and may have/ });
    closed.mock.restore();
    assert.equal(a.snapshotLeavings.jobOf(id)?.state, 'running');
    allow();
    await nodes.meet();
    assert.equal((await nodes.ended()).state, 'done');
    assert.deepEqual(await listed(nodes.get('b')), all);
  });
});
