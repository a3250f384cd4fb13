import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { showMove } from '../../src/admin/moving.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { idOf, id as idWithin, Node, refuseCommits, withSnapshots as within } from './following-node.ts';
import {
  digest,
  FollowingNodes,
  followed,
  id,
  listed,
  remove,
  requireDigests,
  snapshot,
  withSnapshots,
} from './following-nodes.ts';
import type { MovingNode } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

const arriving = (node: MovingNode) => movesOf(node.pool).snapshots.arriving();

/** What `move status` says of the snapshots that are left. */
function left(node: MovingNode) {
  const sight = node.mover.sights().find(({ job, snapshots }) => job.id === id && snapshots !== undefined);
  return showMove(sight ?? assert.fail('no snapshots have moved')).snapshots?.left ?? [];
}

/** All of `young` is on node b, and handed over to it, and b cannot commit it. @returns the digests, and the end of that */
async function handedOver(nodes: FollowingNodes) {
  const digests = await withSnapshots(nodes.get('a'));
  const allow = refuseCommits(nodes.get('b').pool);
  await nodes.order('a', 'b');
  await eventually(() => assert.equal(followed(nodes.get('b'))?.trouble, 'pool data is full.'));
  return { allow, digests };
}

/** Its disk and its notes of that are gone, and the node is there. */
async function loseDisk(scratch: Scratch, nodes: FollowingNodes): Promise<void> {
  await nodes.stop('a');
  rmSync(scratch.join('a.img'));
  rmSync(scratch.join('data-a/pools/data.id'), { force: true });
  await nodes.start('a');
}

/** Makes `young` the snapshot, as node a is lost. */
async function requireFinish(node: MovingNode, young: string): Promise<void> {
  await node.mover.finish(id, { lostNode: 'a' });
  assert.ok((await listed(node)).includes('young'));
  assert.equal(await digest(node, 'young'), young);
  assert.deepEqual([await arriving(node), left(node)], [[], []]);
  await assert.rejects(node.mover.finish(id, { lostNode: 'a' }), { name: 'NotFound' });
}

function requireShown(node: MovingNode): void {
  const [only, ...others] = left(node);
  assert.deepEqual([only?.name, only?.pool, others], ['young', 'data', []]);
  assert.match(only?.reason ?? '', /may be the last copy, and stays\..*move finish .* --node-is-lost a/);
}

describe('a copy of a snapshot of which all has come, and whose source has lost it', () => {
  test('is named by an order that has failed, and becomes the snapshot by a word', async () => {
    using scratch = new Scratch('snapshots-waiting');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const { allow, digests } = await handedOver(nodes);
    await loseDisk(scratch, nodes);
    await nodes.meet();
    const { snapshots, state } = await nodes.ended();
    assert.deepEqual([state, snapshots.moved], ['failed', 0]);
    const b = nodes.get('b');
    requireShown(b);
    assert.deepEqual(await arriving(b), [idOf('young')]);
    allow();
    await requireFinish(b, digests.young);
  });

  test('stays by its name where the order is cancelled then', async () => {
    using scratch = new Scratch('snapshots-waiting');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const { allow, digests } = await handedOver(nodes);
    const b = nodes.get('b');
    const moveId = followed(b)?.job.moveId ?? assert.fail();
    await loseDisk(scratch, nodes);
    const a = nodes.get('a');
    await a.snapshotLeavings.admit({ id, moveId, node: 'b' }, 'again').catch(() => undefined);
    b.nodes.connect('a', { host: '127.0.0.1', port: a.port });
    assert.equal((await b.mover.cancel(id)).state, 'cancelled');
    requireShown(b);
    allow();
    await requireFinish(b, digests.young);
  });

  test('stays where the disk of its source is as it was before the fence', async () => {
    using scratch = new Scratch('snapshots-waiting');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const digests = await withSnapshots(nodes.get('a'));
    await nodes.stop('a');
    copyFileSync(scratch.join('a.img'), scratch.join('a.old'));
    await nodes.start('a');
    const b = nodes.get('b');
    const allow = refuseCommits(b.pool);
    await nodes.order('a', 'b');
    await eventually(() => assert.equal(followed(b)?.trouble, 'pool data is full.'));
    const moveId = followed(b)?.job.moveId ?? assert.fail();
    await nodes.stop('a');
    renameSync(scratch.join('a.old'), scratch.join('a.img'));
    const a = await nodes.start('a');
    assert.equal((await movesOf(a.pool).snapshots.stateOf(idOf('young'))).why, 'old');
    await a.snapshotLeavings.admit({ id, moveId, node: 'b' }, 'again').catch(() => undefined);
    b.nodes.connect('a', { host: '127.0.0.1', port: a.port });
    assert.equal((await b.mover.cancel(id)).state, 'cancelled');
    const waiting = left(b).filter(({ cameFrom }) => cameFrom !== undefined);
    assert.deepEqual([waiting.map(({ name }) => name), await arriving(b)], [['young'], [idOf('young')]]);
    allow();
    await b.mover.finish(id, { lostNode: 'a' });
    await requireDigests(b, { young: digests.young });
  });

  test('becomes the snapshot also a week after that, and after another start', async () => {
    using scratch = new Scratch('snapshots-waiting');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const { digests } = await handedOver(nodes);
    await nodes.stop('a');
    assert.equal((await nodes.get('b').mover.cancel(id, { lostNode: 'a' })).state, 'cancelled');
    await nodes.stop('b');
    const path = scratch.join('data-b', 'snapshot-moves', `${id}.json`);
    const endedAt = new Date(Date.now() - 8 * 86_400_000).toISOString();
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), startedAt: endedAt, endedAt }));
    const b = await nodes.start('b');
    requireShown(b);
    await requireFinish(b, digests.young);
    await nodes.stop('b');
    // Nothing waits any more.
    const again = await nodes.start('b');
    assert.deepEqual(
      [existsSync(path), again.mover.sights().filter(({ snapshots }) => snapshots !== undefined)],
      [false, []],
    );
  });

  test('becomes the snapshot also after the volume has gone on, and come back', async () => {
    using scratch = new Scratch('snapshots-waiting');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b', 'c');
    const { allow, digests } = await handedOver(nodes);
    await nodes.stop('a');
    const [b, c] = [nodes.get('b'), nodes.get('c')];
    await b.mover.cancel(id, { lostNode: 'a' });
    allow();
    const later = await snapshot(b, 'later', Buffer.alloc(4096, 1), 0n);
    await nodes.order('b', 'c');
    assert.equal((await nodes.ended()).state, 'done');
    requireShown(b);
    await nodes.order('c', 'b');
    assert.equal((await b.ended(id)).job.state, 'done');
    assert.equal((await nodes.ended()).state, 'done');
    assert.deepEqual([await listed(c), await listed(b)], [[], ['later']]);
    requireShown(b);
    await requireFinish(b, digests.young);
    assert.equal(await digest(b, 'later'), later);
  });

  test('is the snapshot by the next order, once its source is there again after all', async () => {
    using scratch = new Scratch('snapshots-waiting');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const { allow, digests } = await handedOver(nodes);
    await nodes.stop('a');
    const b = nodes.get('b');
    await b.mover.cancel(id, { lostNode: 'a' });
    requireShown(b);
    allow();
    await nodes.start('a');
    await nodes.order('a', 'b');
    const { snapshots, state } = await nodes.ended();
    assert.deepEqual([state, snapshots], ['done', { pools: [], moved: 3, left: [] }]);
    await requireDigests(b, digests);
  });

  test('goes once its source has taken the snapshot back', async () => {
    using scratch = new Scratch('snapshots-waiting');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const { digests } = await handedOver(nodes);
    const b = nodes.get('b');
    // It is there, and tries again.
    await nodes.get('a').mover.cancel(id, { lostNode: 'b' });
    assert.equal((await nodes.ended()).state, 'failed');
    assert.deepEqual([await arriving(b), left(b)], [[], []]);
    await requireDigests(nodes.get('a'), digests);
  });

  test('goes with the deletion of the snapshot, and so does its note', async () => {
    using scratch = new Scratch('snapshots-waiting');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    await handedOver(nodes);
    await nodes.stop('a');
    const b = nodes.get('b');
    await b.mover.cancel(id, { lostNode: 'a' });
    await remove(b, 'young');
    assert.deepEqual([await arriving(b), left(b)], [[], []]);
    await assert.rejects(b.mover.finish(id, { lostNode: 'a' }), { name: 'NotFound' });
  });
});

test('a copy of a snapshot of which all has come becomes the snapshot if the pool of its node is lost which it leaves', async () => {
  using scratch = new Scratch('snapshots-waiting');
  let young = '';
  {
    await using node = await Node.open(scratch);
    ({ young } = await within(node));
    refuseCommits(node.pools.get('two'));
    await node.mover.start(idWithin, 'two', undefined, true);
    await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool two is full.'));
  }
  rmSync(scratch.join('one.img'));
  rmSync(scratch.join('data/pools/one.id'));
  await using node = await Node.open(scratch);
  const { snapshots, state } = await node.ended();
  assert.deepEqual([state, snapshots.moved], ['failed', 0]);
  const [only] = showMove(node.sight()).snapshots?.left ?? [];
  assert.match(`${only?.name} ${only?.reason}`, /^young .* holdfast move finish .* --pool-is-lost one/);
  await assert.rejects(node.mover.finish(idWithin, { lostPool: 'two' }), { name: 'NotFound' });
  await node.mover.finish(idWithin, { lostPool: 'one' });
  assert.deepEqual(await node.listed(), ['two/young']);
  assert.equal(await node.digest('young'), young);
  assert.deepEqual(await movesOf(node.pools.get('two')).snapshots.arriving(), []);
});
