import assert from 'node:assert/strict';
import { truncateSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { FailedPrecondition, Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import * as within from './following-node.ts';
import { idOf, Node, refuseCommits } from './following-node.ts';
import { digest, FollowingNodes, followed, id, listed, withSnapshots } from './following-nodes.ts';
import { movesOf } from './two-pools.ts';

/* The copy that is the snapshot lacks data, as its disk is damaged: no other copy goes for it of which all bytes have come. */

const young = idOf('young');
const damaged = { code: 'DATA_LOSS', message: /has only 4096 of/ };

/** @param name of a node, or of a pool of the only one */
function damage(scratch: Scratch, name: string, kind: 'node' | 'pool'): void {
  const pool = kind === 'node' ? `data-${name}/pools/data` : `data/pools/${name}`;
  truncateSync(scratch.join(pool, 'snapshots', young, 'data'), 4096);
}

describe('a snapshot whose copy is damaged', () => {
  test('on the node that has taken it back stays on the node that was lost, and has all of it', async () => {
    using scratch = new Scratch('survivor');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const digests = await withSnapshots(nodes.get('a'));
    const deaf = mock.method(movesOf(nodes.get('a').pool).snapshots, 'settle', async () => {
      throw new Unavailable('node a is deaf.');
    });
    await nodes.order('a', 'b');
    await eventually(async () => assert.ok((await listed(nodes.get('b'))).includes('young')));
    await eventually(() => assert.match(followed(nodes.get('b'))?.trouble ?? '', /deaf/));
    await nodes.stop('b');
    deaf.mock.restore();
    assert.equal((await nodes.get('a').mover.cancel(id, { lostNode: 'b' })).state, 'cancelled');
    damage(scratch, 'a', 'node');
    const b = await nodes.start('b');
    await nodes.meet();
    assert.equal((await nodes.ended()).state, 'failed');
    assert.deepEqual(await listed(b), ['young']);
    assert.equal(await digest(b, 'young'), digests.young);
    // It can be deleted there, too.
    assert.equal(followed(b)?.job.snapshots.coming, undefined);
  });

  test('on the node that has handed it over is not taken back while all of it waits on the other one', async () => {
    using scratch = new Scratch('survivor');
    await using nodes = await FollowingNodes.open(scratch, 'a', 'b');
    const digests = await withSnapshots(nodes.get('a'));
    const b = nodes.get('b');
    const allow = refuseCommits(b.pool);
    await nodes.order('a', 'b');
    await eventually(() => assert.equal(followed(b)?.trouble, 'pool data is full.'));
    damage(scratch, 'a', 'node');
    await assert.rejects(b.mover.cancel(id), damaged);
    assert.deepEqual(await movesOf(b.pool).snapshots.arriving(), [young]);
    allow();
    await nodes.ended();
    assert.equal(await digest(b, 'young'), digests.young);
  });

  test('in the pool that has handed it over is not taken back while all of it waits in the other one', async () => {
    using scratch = new Scratch('survivor');
    await using node = await Node.open(scratch);
    const digests = await within.withSnapshots(node);
    const allow = refuseCommits(node.pools.get('two'));
    await node.mover.start(within.id, 'two', undefined, true);
    await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool two is full.'));
    damage(scratch, 'one', 'pool');
    await assert.rejects(node.mover.cancel(within.id), damaged);
    allow();
    await node.ended();
    assert.deepEqual(await node.listed(), ['two/middle', 'two/old', 'two/young']);
    assert.equal(await node.digest('young'), digests.young);
  });

  for (const isPart of [true, false]) {
    test(`in the pool that hands it over keeps what has come of it to the other one: ${isPart ? 'not a part' : 'all of it'}`, async () => {
      using scratch = new Scratch('survivor');
      {
        await using node = await Node.open(scratch);
        await within.withSnapshots(node);
        const snapshots = movesOf(node.pools.get('one')).snapshots;
        const failing = isPart ? 'read' : 'give';
        const real = snapshots[failing].bind(snapshots) as (each: typeof young, ...rest: never[]) => Promise<never>;
        mock.method(snapshots, failing, async (each: typeof young, ...rest: never[]) => {
          if (each !== young) return real(each, ...rest);
          damage(scratch, 'one', 'pool');
          throw new FailedPrecondition('it is damaged.');
        });
        await node.mover.start(within.id, 'two', undefined, true);
        const { left } = (await node.ended()).snapshots;
        assert.deepEqual(
          left.map(({ name }) => name),
          ['young'],
        );
        const expected = isPart ? [] : [young];
        await eventually(async () =>
          assert.deepEqual(await movesOf(node.pools.get('two')).snapshots.arriving(), expected),
        );
      }
      // Nor does a start take it for one that is needed no more.
      await using node = await Node.open(scratch);
      const two = movesOf(node.pools.get('two')).snapshots;
      const removed = mock.method(two, 'discard');
      await eventually(() => assert.ok(node.mover.sights().length > 0));
      await node.mover.start(within.id, 'two', undefined, true);
      await node.ended();
      assert.deepEqual(await two.arriving(), isPart ? [] : [young]);
      assert.equal(removed.mock.calls.length > 0, isPart);
      assert.ok((await node.listed()).includes('one/young'));
      // The deletion removes both.
      await node.remove(young);
      assert.deepEqual(await two.arriving(), []);
    });
  }
});
