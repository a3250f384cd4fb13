import assert from 'node:assert/strict';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { MoveJobs } from '../../src/move/job.ts';
import type { Pool } from '../../src/pool/pool.ts';
import { Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { digestIn, written } from './devices.ts';
import { id, Node, sized, spec } from './following-node.ts';
import { Broker, blockSpec, filled, introduce, MovingNode, order } from './two-nodes.ts';
import { isWhole, movesOf } from './two-pools.ts';

/*
 * All of a volume has come, its hand-over has failed, and it can be used where it was. If that disk is lost later, the copy that has come lacks
 * what was written since: so the end of the fence is noted, also if a disk fails just then.
 */

/** The node's own disk takes no note of a move any more. @returns ends that */
function refuseNotes(scratch: Scratch): () => void {
  const jobs = scratch.join('data/moves');
  renameSync(jobs, `${jobs}.away`);
  writeFileSync(jobs, '');
  return () => {
    rmSync(jobs);
    renameSync(`${jobs}.away`, jobs);
  };
}

/** The pool hands no volume over. @param failing what else fails with it */
function refuseGiving(pool: Pool, failing: () => void): void {
  movesOf(pool).give = async () => {
    failing();
    throw new Error('the disk of the node is full');
  };
}

const jobIn = (scratch: Scratch) => JSON.parse(readFileSync(scratch.join('data/moves', `${id}.json`), 'utf8'));

/** Pool one is lost: the copy in pool two becomes the volume by a second word alone. */
async function requireSecondWord(scratch: Scratch, then: string): Promise<void> {
  await using node = await Node.open(scratch, [sized('two')]);
  await assert.rejects(node.mover.finish(id, { lostPool: 'one' }), {
    name: 'FailedPrecondition',
    message: /may have been used again in pool one, .* had ended by .* --even-so/,
  });
  await node.mover.finish(id, { lostPool: 'one' }, true);
  assert.equal(await digestIn(node, id), then);
}

describe('the end of a fence is noted', () => {
  test('although the disk of the node takes no note just then', async () => {
    using scratch = new Scratch('fence-ends');
    let then: string;
    {
      await using node = await Node.open(scratch);
      const one = node.pools.get('one');
      await one.create(spec);
      then = await written(node, id);
      const given = Promise.withResolvers<() => void>();
      refuseGiving(one, () => given.resolve(refuseNotes(scratch)));
      await node.mover.start(id, 'two', undefined);
      const takeNotes = await given.promise;
      await eventually(async () => assert.equal((await movesOf(one).stateOf(id)).why, undefined));
      await eventually(() => assert.match(node.sight().trouble ?? '', /its end cannot be noted/));
      takeNotes();
      await eventually(() => assert.equal(node.sight().job.state, 'failed'));
      assert.ok(await isWhole(node.pools.get('two'), id));
      assert.notEqual(await written(node, id), then);
    }
    await requireSecondWord(scratch, then);
  });

  test('although the disk of the pool does not answer just then: the fence ends once it does', async () => {
    using scratch = new Scratch('fence-ends');
    let then: string;
    {
      await using node = await Node.open(scratch, undefined, undefined, 100);
      const one = node.pools.get('one');
      const moves = movesOf(one);
      await one.create(spec);
      then = await written(node, id);
      const { open } = moves;
      refuseGiving(one, () => {
        moves.open = async () => {
          throw new Error('EIO: i/o error');
        };
      });
      await node.mover.start(id, 'two', undefined);
      await eventually(() => assert.equal(node.sight().job.state, 'failed'));
      assert.equal((await moves.stateOf(id)).why, 'closed');
      assert.equal(node.sight().job.whole?.fenceEndedAt, undefined);
      moves.open = open;
      await eventually(() => assert.ok(jobIn(scratch).whole.fenceEndedAt !== undefined));
      assert.notEqual(await written(node, id), then);
    }
    await requireSecondWord(scratch, then);
  });

  for (const how of ['the disk of the node takes no note just then', 'the pool opens later'] as const) {
    test(`at a start, too, although ${how}`, async () => {
      using scratch = new Scratch('fence-ends');
      let then: string;
      {
        await using node = await Node.open(scratch);
        await node.pools.get('one').create(spec);
        then = await written(node, id);
        refuseGiving(node.pools.get('one'), () => undefined);
        await node.mover.start(id, 'two', undefined);
        await eventually(() => assert.equal(node.sight().job.state, 'failed'));
      }
      const { fenceEndedAt: _unnoted, ...whole } = jobIn(scratch).whole;
      writeFileSync(scratch.join('data/moves', `${id}.json`), JSON.stringify({ ...jobIn(scratch), whole }));
      {
        const away = how === 'the pool opens later' ? ['one'] : [];
        const refused = mock.method(MoveJobs.prototype, 'write', async () => {
          throw new Error('ENOSPC: no space left on device');
        });
        await using node = await Node.open(scratch, undefined, away, 100);
        assert.equal(jobIn(scratch).whole.fenceEndedAt, undefined);
        refused.mock.restore();
        away.length = 0;
        await eventually(() => assert.ok(jobIn(scratch).whole.fenceEndedAt !== undefined));
        assert.notEqual(await written(node, id), then);
      }
      await requireSecondWord(scratch, then);
    });
  }

  test('once the first node has ended the move, if it can be used there', async () => {
    using scratch = new Scratch('fence-ends');
    const broker = new Broker();
    const { id: volumeId } = blockSpec;
    await using a = await MovingNode.open(scratch, broker, 'a');
    await filled(a);
    let moveId: string;
    {
      await using b = await MovingNode.open(scratch, broker, 'b');
      movesOf(a.pool).give = () => Promise.reject(new Unavailable('pool data does not answer.'));
      moveId = await order(a, b, volumeId);
      await eventually(async () => assert.ok(await isWhole(b.pool, volumeId)));
    }
    assert.equal((await a.mover.cancel(volumeId)).state, 'cancelled');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await introduce(a, b, { id: volumeId, moveId });
    const { job } = await b.ended(volumeId);
    assert.equal(job.state, 'failed');
    assert.notEqual(job.whole?.fenceEndedAt ?? 'not noted', 'not noted');
  });
});

test('a disk that hangs as it is asked for the fence that a failed move has left keeps no call for the volume back', async () => {
  using scratch = new Scratch('fence-ends');
  await using node = await Node.open(scratch, undefined, undefined, 100);
  const one = node.pools.get('one');
  await one.create(spec);
  const latest = await written(node, id);
  const moves = movesOf(one);
  const { open } = moves;
  const stateOf = moves.stateOf.bind(moves);
  const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let isHung = false;
  refuseGiving(one, () => {
    moves.open = async () => {
      throw new Error('the disk has failed');
    };
  });
  moves.stateOf = async (volumeId) => {
    if (isHung) {
      asked.resolve();
      await answer.promise;
    }
    return stateOf(volumeId);
  };
  await node.mover.start(id, 'two', undefined);
  await eventually(() => assert.equal(node.sight().job.state, 'failed'));
  isHung = true;
  await asked.promise;
  // It answers all other calls again.
  isHung = false;
  moves.open = open;
  try {
    assert.equal((await node.mover.cancel(id)).state, 'cancelled');
    assert.equal(await digestIn(node, id), latest);
  } finally {
    answer.resolve();
  }
});
