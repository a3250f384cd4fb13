import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { mayBeWhole } from '../../src/move/snapshots/snapshot-move.ts';
import { Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { idOf, mib, refuseCommits } from './following-node.ts';
import {
  digest,
  FollowingNodes,
  followed,
  id,
  listed,
  look,
  remove,
  requireDigests,
  snapshot,
  take,
  withSnapshots,
} from './following-nodes.ts';
import { moveAlong } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

const all = ['middle', 'old', 'young'];
const unavailable = { name: 'Unavailable' };

describe('snapshots that follow their volume to another node', () => {
  test('have the same bytes and records there, share what they can, and are there once; and back', async () => {
    using scratch = new Scratch('snapshots-nodes');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    const digests = await withSnapshots(a);
    const before = await a.pool.findSnapshot(idOf('middle'));
    const { disk: empty } = await b.pool.usage();
    await nodes.order('a', 'b');
    const { snapshots, state } = await nodes.ended();
    assert.deepEqual([state, snapshots], ['done', { pools: [], moved: 3, left: [] }]);
    assert.deepEqual([await listed(a), await listed(b)], [[], all]);
    await requireDigests(b, digests);
    assert.deepEqual(await b.pool.findSnapshot(idOf('middle')), before);
    const { disk: full } = await b.pool.usage();
    const takenBytes = empty.freeBytes - full.freeBytes;
    assert.ok(takenBytes < 20n * mib, `${takenBytes} bytes are taken`);
    // It is the snapshot of that name, whoever asks for one again.
    assert.equal(await take(b, 'young'), idOf('young'));
    // The first node says that it has none, and knows where it went.
    await assert.rejects(look(a, 'young'), { name: 'NotFound' });
    assert.equal((await movesOf(a.pool).snapshots.noted(idOf('young'))).at, 'b');

    await nodes.order('b', 'a');
    assert.equal((await nodes.ended()).state, 'done');
    assert.deepEqual([await listed(a), await listed(b)], [all, []]);
    await requireDigests(a, digests);
    for (const name of all) await remove(a, name);
    assert.deepEqual(await listed(a), []);
  });

  test('go on where they were after either node has started again', async () => {
    using scratch = new Scratch('snapshots-nodes');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const digests = await withSnapshots(nodes.get('a'));
    await nodes.order('a', 'b', 4n << 20n);
    for (const name of ['b', 'a']) {
      await eventually(() => assert.ok((followed(nodes.get('b'))?.progress?.doneBytes ?? 0n) > 0n));
      await nodes.stop(name);
      await nodes.start(name);
      // Nothing is said of what is coming before its node is there.
      if (name === 'b') {
        await assert.rejects(look(nodes.get('b'), 'young'), unavailable);
        // The part that has come is not taken for one that comes no more.
        assert.deepEqual(await movesOf(nodes.get('b').pool).snapshots.arriving(), [idOf('young')]);
      }
      await requireDigests(nodes.get('a'), { old: digests.old });
      await nodes.meet();
    }
    assert.deepEqual((await nodes.ended()).snapshots.left, []);
    assert.deepEqual([await listed(nodes.get('a')), await listed(nodes.get('b'))], [[], all]);
    await requireDigests(nodes.get('b'), digests);
  });

  test('that are deleted while they are copied are gone at both, and the others follow', async () => {
    using scratch = new Scratch('snapshots-nodes');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    const digests = await withSnapshots(a);
    await nodes.order('a', 'b', 2n << 20n);
    await eventually(() => assert.ok((followed(b)?.progress?.doneBytes ?? 0n) > 0n));
    // It is where it was, and only that node removes it.
    await assert.rejects(remove(b, 'young'), unavailable);
    await remove(a, 'young');
    assert.deepEqual(await listed(a), ['middle', 'old']);
    await eventually(async () => assert.ok(!(await movesOf(b.pool).snapshots.arriving()).includes(idOf('young'))));
    await nodes.ended();
    assert.deepEqual([await listed(a), await listed(b)], [[], ['middle', 'old']]);
    await requireDigests(b, { old: digests.old, middle: digests.middle });
    assert.deepEqual(readdirSync(scratch.join('data-b', 'pools', 'data', 'tmp')), []);
  });

  test('one that was handed over, and cannot arrive, is nowhere until that is given up; then it is where it was', async () => {
    using scratch = new Scratch('snapshots-nodes');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    const digests = await withSnapshots(a);
    const allow = refuseCommits(b.pool);
    await nodes.order('a', 'b');
    await eventually(() => assert.equal(followed(b)?.trouble, 'pool data is full.'));
    for (const node of [a, b]) {
      await assert.rejects(look(node, 'young'), unavailable);
      await assert.rejects(remove(node, 'young'), unavailable);
    }
    // Its node may have it.
    await assert.rejects(a.mover.cancel(id), { name: 'FailedPrecondition', message: /was handed over to node b/ });
    assert.equal((await b.mover.cancel(id)).state, 'cancelled');
    assert.deepEqual([await listed(a), await listed(b)], [all, []]);
    await requireDigests(a, digests);
    // No copy of that hand-over is ever committed there.
    const { at, generation } = await movesOf(b.pool).snapshots.noted(idOf('young'));
    assert.deepEqual([at, generation], ['a', 2]);
    allow();
    await nodes.order('a', 'b');
    assert.deepEqual((await nodes.ended()).snapshots.left, []);
    await requireDigests(b, digests);
    assert.deepEqual(await listed(a), []);
  });

  test('one that was handed over keeps what has come of it while the node that had it does not take it back', async () => {
    using scratch = new Scratch('snapshots-nodes');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    const digests = await withSnapshots(a);
    refuseCommits(b.pool);
    await nodes.order('a', 'b');
    await eventually(() => assert.equal(followed(b)?.trouble, 'pool data is full.'));
    const there = movesOf(b.pool).snapshots;
    const refuse = async () => {
      throw new Unavailable('its disk does not answer.');
    };
    for (const refusal of [
      mock.method(there, 'disclaim', refuse),
      mock.method(movesOf(a.pool).snapshots, 'takeBack', refuse),
    ]) {
      await assert.rejects(b.mover.cancel(id), { message: /its disk does not answer/ });
      assert.deepEqual(await there.arriving(), [idOf('young')]);
      assert.ok(mayBeWhole(await there.notedOf(idOf('young'))));
      refusal.mock.restore();
    }
    assert.equal((await b.mover.cancel(id)).state, 'cancelled');
    assert.deepEqual([await listed(a), await there.arriving()], [all, []]);
    await requireDigests(a, digests);
  });

  test('one that has arrived is not deleted before its first node has heard of that', async () => {
    using scratch = new Scratch('snapshots-nodes');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    await withSnapshots(a);
    const deaf = mock.method(movesOf(a.pool).snapshots, 'settle', async () => {
      throw new Unavailable('node a does not answer.');
    });
    await nodes.order('a', 'b');
    await eventually(() => assert.equal(followed(b)?.trouble, 'node a does not answer.'));
    assert.deepEqual([await listed(a), await listed(b)], [['middle', 'old'], ['young']]);
    for (const node of [a, b]) await assert.rejects(remove(node, 'young'), unavailable);
    await nodes.stop('b');
    await nodes.start('b');
    await assert.rejects(remove(nodes.get('b'), 'young'), unavailable);
    deaf.mock.restore();
    await nodes.meet();
    await nodes.ended();
    await remove(nodes.get('b'), 'young');
    assert.deepEqual([await listed(a), await listed(nodes.get('b'))], [[], ['middle', 'old']]);
    assert.equal(movesOf(a.pool).snapshots.find(idOf('young')), undefined);
  });

  test('that went to a node which is lost are the snapshots where they were, by that word', async () => {
    using scratch = new Scratch('snapshots-nodes');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const a = nodes.get('a');
    const digests = await withSnapshots(a);
    refuseCommits(nodes.get('b').pool);
    await nodes.order('a', 'b');
    await eventually(() => assert.equal(followed(nodes.get('b'))?.trouble, 'pool data is full.'));
    await nodes.stop('b');
    assert.deepEqual(await listed(a), ['middle', 'old']);
    await assert.rejects(a.mover.cancel(id, { lostNode: 'c' }), /was handed over to node b/);
    await a.mover.cancel(id, { lostNode: 'b' });
    assert.deepEqual(await listed(a), all);
    await requireDigests(a, digests);
    // It comes back, and gets nothing more.
    await nodes.start('b');
    await nodes.meet();
    const { reason, state } = await nodes.ended();
    assert.deepEqual([state, reason], ['failed', reason]);
    assert.match(reason ?? '', /no longer follow it/);
    assert.deepEqual([await listed(a), await listed(nodes.get('b'))], [all, []]);
    await requireDigests(a, digests);
  });

  test('one that is taken back by that word while the other node commits it is there once, where it was', async () => {
    using scratch = new Scratch('snapshots-nodes');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    await withSnapshots(nodes.get('a'));
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    const target = movesOf(b.pool).snapshots;
    const receive = target.receive.bind(target);
    let isTakenBack = false;
    const receiving = mock.method(target, 'receive', async (...args: Parameters<typeof receive>) => {
      const incoming = await receive(...args);
      const commit = incoming.commit.bind(incoming);
      incoming.commit = async (...own: Parameters<typeof commit>) => {
        if (!isTakenBack) await a.mover.cancel(id, { lostNode: 'b' });
        isTakenBack = true;
        return commit(...own);
      };
      return incoming;
    });
    await nodes.order('a', 'b');
    const { state } = await nodes.ended();
    receiving.mock.restore();
    assert.equal(state, 'failed');
    assert.deepEqual([await listed(a), await listed(b)], [all, []]);
  });

  test('whose first node is lost are ended by that word: a part goes, and one that may be the last copy stays until it is deleted', async () => {
    for (const isWhole of [false, true]) {
      using scratch = new Scratch('snapshots-nodes');
      await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
      const b = nodes.get('b');
      const { snapshots } = movesOf(b.pool);
      await withSnapshots(nodes.get('a'));
      if (isWhole) refuseCommits(b.pool);
      await nodes.order('a', 'b', isWhole ? undefined : 2n << 20n);
      await eventually(() => {
        const { progress, trouble } = followed(b) ?? assert.fail();
        if (isWhole) assert.equal(trouble, 'pool data is full.');
        else assert.ok((progress?.doneBytes ?? 0n) > 0n);
      });
      await nodes.stop('a');
      await assert.rejects(b.mover.cancel(id, { lostNode: 'c' }));
      assert.equal((await b.mover.cancel(id, { lostNode: 'a' })).state, 'cancelled');
      const left = isWhole ? [idOf('young')] : [];
      await eventually(async () => assert.deepEqual(await snapshots.arriving(), left));
      assert.deepEqual(await listed(b), []);
      await remove(b, 'young');
      assert.deepEqual(await snapshots.arriving(), []);
    }
  });

  test('are given up while another call has the one that waits, whose first disk is an empty one by now', async () => {
    using scratch = new Scratch('snapshots-nodes');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    await withSnapshots(nodes.get('a'));
    refuseCommits(nodes.get('b').pool);
    await nodes.order('a', 'b');
    const b = nodes.get('b');
    await eventually(() => assert.equal(followed(b)?.trouble, 'pool data is full.'));
    const moveId = followed(b)?.job.moveId ?? assert.fail();
    await nodes.stop('a');
    rmSync(scratch.join('a.img'));
    rmSync(scratch.join('data-a/pools/data.id'), { force: true });
    await nodes.start('a');
    const a = nodes.get('a');
    await a.snapshotLeavings.admit({ id, moveId, node: 'b' }, 'again').catch(() => undefined);
    b.nodes.connect('a', { host: '127.0.0.1', port: a.port });
    const restored = Promise.withResolvers<void>();
    const held = b.objects.claim([{ object: idOf('young') }], 'a restore of it', () => restored.promise);
    const claim = b.objects.claim.bind(b.objects);
    mock.method(b.objects, 'claim', (...args: Parameters<typeof claim>) => {
      const claimed = claim(...args);
      // It waits for its turn.
      claimed.catch(() => restored.resolve());
      return claimed;
    });
    assert.equal((await b.mover.cancel(id)).state, 'cancelled');
    await held;
  });

  test('that are left, or were taken back, follow by the same order, where the volume is already', async () => {
    using scratch = new Scratch('snapshots-nodes');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    const digests = await withSnapshots(a);
    await nodes.order('a', 'b', 4n << 20n);
    await eventually(() => assert.ok((followed(b)?.progress?.doneBytes ?? 0n) > 0n));
    assert.equal((await a.mover.cancel(id)).state, 'cancelled');
    assert.equal((await nodes.ended()).state, 'failed');
    assert.deepEqual([await listed(a), await listed(b)], [all, []]);
    const younger = await snapshot(b, 'younger', Buffer.alloc(4096, 1), 0n);
    await nodes.order('a', 'b');
    assert.deepEqual((await nodes.ended()).snapshots.left, []);
    assert.deepEqual([await listed(a), await listed(b)], [[], [...all, 'younger']]);
    await requireDigests(b, digests);
    assert.equal(await digest(b, 'younger'), younger);
    await assert.rejects(nodes.order('a', 'b'), /node a has no snapshot of it that can move/);
  });

  test('one of a name whose earlier snapshot was given up there stays, and is not handed over', async () => {
    using scratch = new Scratch('snapshots-nodes');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    await withSnapshots(a);
    const allow = refuseCommits(b.pool);
    await nodes.order('a', 'b');
    await eventually(() => assert.equal(followed(b)?.trouble, 'pool data is full.'));
    await b.mover.cancel(id);
    allow();
    await moveAlong(id, b, a);
    await remove(a, 'young');
    const young = await snapshot(a, 'young', Buffer.alloc(4096, 1), 0n);
    await nodes.order('a', 'b');
    const { left } = (await nodes.ended()).snapshots;
    assert.deepEqual(
      left.map(({ name, node }) => [name, node]),
      [['young', 'a']],
    );
    assert.match(left[0]?.reason ?? '', /has had a later copy of a snapshot with this id/);
    assert.deepEqual([await listed(a), await listed(b)], [['young'], ['middle', 'old']]);
    assert.equal(await digest(a, 'young'), young);
  });

  test('a node that says that it has one gets no copy removed which was not handed over to it', async () => {
    using scratch = new Scratch('snapshots-nodes');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    await withSnapshots(a);
    await nodes.order('a', 'b', 2n << 20n);
    await eventually(() => assert.ok((followed(b)?.progress?.doneBytes ?? 0n) > 0n));
    const { job } = followed(b) ?? assert.fail();
    const from = b.nodes.snapshots({ id, moveId: job.moveId, node: 'a' }, AbortSignal.timeout(10_000));
    for (const held of await from.all()) assert.equal(await held.settle(7), false, held.record.name);
    assert.deepEqual(await listed(a), all);
    // Nor does it get one with a fence that it made up, or of which it has asked for another one.
    const [, middle = assert.fail()] = await from.all();
    await assert.rejects(middle.give({ moveId: 'made up', fenceId: 'made up' }), { name: 'FailedPrecondition' });
    await movesOf(a.pool).snapshots.close(middle.record.id, 'data', 'c');
    const { fence } = (await movesOf(a.pool).snapshots.stateOf(middle.record.id)).mark;
    await assert.rejects(middle.give(fence ?? assert.fail()), /is not fenced for its move to node b/);
    assert.deepEqual(await listed(a), all);
    await b.mover.cancel(id);
  });

  test('stay once the volume has gone on to another node, but for one that was handed over', async () => {
    using scratch = new Scratch('snapshots-nodes');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const [a, b] = [nodes.get('a'), nodes.get('b')];
    const digests = await withSnapshots(a);
    const allow = refuseCommits(b.pool);
    await nodes.order('a', 'b');
    await eventually(() => assert.equal(followed(b)?.trouble, 'pool data is full.'));
    await moveAlong(id, b, a);
    allow();
    const { snapshots, state } = await nodes.ended();
    assert.deepEqual([state, await listed(a), await listed(b)], ['done', ['middle', 'old'], ['young']]);
    const reasons = snapshots.left.map(({ name, reason }) => [name, /has gone on to node a by now/.test(reason)]);
    assert.deepEqual(reasons, [
      ['middle', true],
      ['old', true],
    ]);
    await requireDigests(b, { young: digests.young });
    await requireDigests(a, { middle: digests.middle, old: digests.old });
    await nodes.order('b', 'a');
    await nodes.ended();
    await requireDigests(a, digests);
  });

  test('are refused before anything is changed where either node does not take them along', async () => {
    using scratch = new Scratch('snapshots-nodes');
    await using nodes = await FollowingNodes.open(scratch, 'a');
    await nodes.start('b', { movesSnapshots: false });
    await withSnapshots(nodes.get('a'));
    for (const [from, to] of [
      ['a', 'b'],
      ['b', 'a'],
    ] as const) {
      await assert.rejects(nodes.order(from, to), /HOLDFAST_MOVE_SNAPSHOTS=true/);
    }
    assert.deepEqual(nodes.get('b').mover.sights(), []);
    assert.deepEqual(await listed(nodes.get('a')), all);
  });
});
