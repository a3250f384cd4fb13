import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf } from './devices.ts';
import { Broker, blockSpec, filled, introduce, MovingNode, moveAlong, order } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

/* Requests of a target that wait at the source for their turn, and get it after the move has ended. */

const { id } = blockSpec;

interface Late {
  /** The first request has come, and waits. */
  readonly hasCome: Promise<void>;
  /** Lets it go on, to its end. */
  readonly run: () => Promise<void>;
}

interface LaterTurns {
  /** Runs before each later turn of a move. */
  readonly before?: (late: Late) => Promise<void>;
  /** Runs after each of them. */
  readonly after?: (late: Late) => Promise<void>;
}

/** The first request of a move waits for its turn. */
function delayFirst({ objects }: MovingNode, later: LaterTurns = {}): Late {
  const claim = objects.claim.bind(objects);
  const [come, go, done] = [
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
  ];
  const late = {
    hasCome: come.promise,
    run: () => {
      go.resolve();
      return done.promise;
    },
  };
  let isFirst = true;
  objects.claim = async (claims, what, work) => {
    // It claims the rest by a call of itself.
    if (what !== 'a move' || claims.length === 0) return claim(claims, what, work);
    if (!isFirst) {
      await later.before?.(late);
      const result = await claim(claims, what, work);
      await later.after?.(late);
      return result;
    }
    isFirst = false;
    come.resolve();
    await go.promise;
    return claim(claims, what, work).finally(done.resolve);
  };
  return late;
}

async function requireFree(node: MovingNode): Promise<void> {
  assert.equal((await movesOf(node.pool).stateOf(id)).why, undefined, 'no fence');
  assert.deepEqual(await node.pool.listSnapshots(undefined, undefined), []);
  await using _shown = await deviceOf(node, id);
}

describe('a request that waits at the source until its move has ended leaves nothing', () => {
  for (const xfs of [true, false]) {
    const what = xfs ? 'for a snapshot' : 'for a fence';

    test(`${what}, where the move is cancelled at the source`, async () => {
      using scratch = new Scratch('nodes');
      const broker = new Broker();
      await using a = await MovingNode.open(scratch, broker, 'a', { xfs });
      await using b = await MovingNode.open(scratch, broker, 'b');
      await filled(a);
      const late = delayFirst(a);
      await order(a, b, id);
      await late.hasCome;
      assert.equal((await a.leavings.cancel(id, false))?.state, 'cancelled');
      await late.run();
      await requireFree(a);
    });

    test(`${what}, where the target has given the move up`, async () => {
      using scratch = new Scratch('nodes');
      const broker = new Broker();
      await using a = await MovingNode.open(scratch, broker, 'a', { xfs });
      await using b = await MovingNode.open(scratch, broker, 'b');
      await filled(a);
      const late = delayFirst(a);
      await order(a, b, id);
      await late.hasCome;
      assert.equal((await b.mover.cancel(id)).state, 'cancelled');
      await late.run();
      await requireFree(a);
      assert.equal(a.leavings.jobs()[0]?.state, 'cancelled');
    });
  }

  test('and leaves no fence if it comes just before the last request of a target', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await filled(a);
    const late = delayFirst(a, { before: ({ run }) => run() });
    await order(a, b, id);
    await late.hasCome;
    assert.equal((await b.mover.cancel(id)).state, 'cancelled');
    await requireFree(a);
    assert.equal(a.leavings.jobs()[0]?.state, 'cancelled');
  });

  test('and comes between no fence that ends and the note of it', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await filled(a);
    let moveId = '';
    const late = delayFirst(a, {
      async after({ run }) {
        await a.leavings.admit({ id, moveId, node: 'b' }, 'again').catch(() => undefined);
        await run();
      },
    });
    moveId = await order(a, b, id);
    await late.hasCome;
    assert.equal((await a.leavings.cancel(id, false))?.state, 'cancelled');
    await requireFree(a);
  });
});

test('a node from where the volume has gone on to a third one does not give it up for the first one', async () => {
  using scratch = new Scratch('nodes');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a');
  await using b = await MovingNode.open(scratch, broker, 'b');
  await using c = await MovingNode.open(scratch, broker, 'c');
  await filled(a);
  await moveAlong(id, a, b, c);
  const given = { generation: 0, fence: { moveId: 'm', fenceId: 'f', isGiven: true, to: 'b' } };
  await assert.rejects(movesOf(b.pool).disclaim(id, given, 'a'), /has gone on to node c/);
  assert.equal((await movesOf(b.pool).whereElse(id)) ?? 'none', 'c');
});

describe('a first node that hears of a volume only after that has gone on from the second one', () => {
  for (const isCancelled of [false, true]) {
    test(`puts its copy into the trash, when the move ${isCancelled ? 'had failed, and is cancelled' : 'goes on'}`, async () => {
      using scratch = new Scratch('nodes');
      const broker = new Broker();
      await using a = await MovingNode.open(scratch, broker, 'a');
      await filled(a);
      const moves = movesOf(a.pool);
      const settle = moves.settle.bind(moves);
      moves.settle = async () => {
        throw new Unavailable('not yet');
      };
      const path = scratch.join('data-b', 'moves', `${id}.json`);
      let note = '';
      let moveId = '';
      {
        await using b = await MovingNode.open(scratch, broker, 'b');
        moveId = await order(a, b, id);
        await eventually(async () => assert.ok(await b.pool.find(id)));
        await eventually(() => assert.match(b.sight(id).trouble ?? '', /not yet/));
        note = readFileSync(path, 'utf8');
      }
      rmSync(path);
      await using c = await MovingNode.open(scratch, broker, 'c');
      {
        await using b = await MovingNode.open(scratch, broker, 'b');
        await order(b, c, id);
        await c.ended(id);
        assert.ok(await c.pool.find(id));
      }
      const ended = { state: 'failed', endedAt: new Date().toISOString() };
      writeFileSync(path, JSON.stringify({ ...JSON.parse(note), ...(isCancelled && ended) }));
      moves.settle = settle;
      assert.ok(await a.pool.find(id));
      await using b = await MovingNode.open(scratch, broker, 'b');
      await introduce(a, b, { id, moveId });
      if (isCancelled) await assert.rejects(b.mover.cancel(id), /has gone on to node c: its copy on node a .* trash/);
      await eventually(async () => assert.equal(await a.pool.find(id), undefined));
      await eventually(() => assert.equal(b.sight(id).job.state, 'done'));
      assert.equal(a.leavings.jobs()[0]?.state, 'done');
      assert.deepEqual(
        (await a.pool.trash()).map(({ record }) => record.id),
        [id],
      );
      assert.equal(await b.pool.find(id), undefined);
      assert.deepEqual(await movesOf(b.pool).arriving(), []);
      assert.equal((await movesOf(c.pool).stateOf(id)).why, undefined);
    });
  }
});

test('a move whose first pool keeps its copy goes on, and says so, until that copy is gone', async () => {
  using scratch = new Scratch('nodes');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a');
  await using b = await MovingNode.open(scratch, broker, 'b');
  await filled(a);
  const kept = mock.method(movesOf(a.pool), 'settle', async () => false);
  const moveId = await order(a, b, id);
  await eventually(() => assert.match(b.sight(id).trouble ?? '', /its copy in pool data is of another move/));
  assert.equal(b.sight(id).job.state, 'running');
  assert.equal(a.leavings.jobs()[0]?.state, 'running');
  assert.equal((await movesOf(b.pool).stateOf(id)).why, undefined);
  kept.mock.restore();
  await introduce(a, b, { id, moveId });
  assert.equal((await b.ended(id)).job.state, 'done');
  assert.equal(a.leavings.jobs()[0]?.state, 'done');
  assert.equal(await a.pool.find(id), undefined);
});

test('a copy that is on an old disk goes to the trash when the move ends', async () => {
  using scratch = new Scratch('nodes');
  const broker = new Broker();
  {
    await using a = await MovingNode.open(scratch, broker, 'a');
    await filled(a);
  }
  cpSync(scratch.join('a'), scratch.join('saved'), { recursive: true });
  await using b = await MovingNode.open(scratch, broker, 'b');
  let moveId: string;
  {
    await using a = await MovingNode.open(scratch, broker, 'a');
    mock.method(movesOf(a.pool), 'settle', async () => false);
    moveId = await order(a, b, id);
    await eventually(() => assert.match(b.sight(id).trouble ?? '', /its copy in pool data/));
  }
  rmSync(scratch.join('a'), { recursive: true });
  cpSync(scratch.join('saved'), scratch.join('a'), { recursive: true });
  await using a = await MovingNode.open(scratch, broker, 'a');
  assert.equal((await movesOf(a.pool).stateOf(id)).why, 'old');
  await introduce(a, b, { id, moveId });
  assert.equal((await b.ended(id)).job.state, 'done');
  assert.equal(await a.pool.find(id), undefined);
  assert.deepEqual(
    (await a.pool.trash()).map(({ record }) => record.id),
    [id],
  );
});

test('a move that was cancelled at its source, and is ordered again, has begun there once its target has come', async () => {
  using scratch = new Scratch('nodes');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a');
  await using b = await MovingNode.open(scratch, broker, 'b');
  await filled(a, 8 << 20);
  const moveId = await order(a, b, id, 1n << 18n);
  await a.leavings.cancel(id, false);
  await b.ended(id);
  const look = () => b.nodes.source({ id, moveId, node: 'a' }, AbortSignal.timeout(5_000)).look();
  await assert.rejects(look(), /was cancelled where the volume is/);
  await introduce(a, b, { id, moveId }, 'order');
  await look();
  assert.equal(a.leavings.jobs()[0]?.state, 'running');
});

test('a volume that has the name of a deleted one is not given to a node from where that one had gone on', async () => {
  using scratch = new Scratch('nodes');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a');
  await using b = await MovingNode.open(scratch, broker, 'b');
  await using c = await MovingNode.open(scratch, broker, 'c');
  await filled(a);
  await moveAlong(id, a, b, c, a);
  await a.delete(id);
  await filled(a);
  await assert.rejects(order(a, b, id), /has had a later copy of a volume with this id.* node c\./);
  assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined);
});

test('a copy that waits for its hand-over has not gone on, also if its node has noted a later one', async () => {
  using scratch = new Scratch('nodes');
  const broker = new Broker();
  await using a = await MovingNode.open(scratch, broker, 'a');
  await filled(a);
  let moveId: string;
  {
    await using b = await MovingNode.open(scratch, broker, 'b');
    const moves = movesOf(b.pool);
    let asked = 0;
    mock.method(moves, 'requireNotPast', async () => {
      // Behind the last question, and before the commit.
      if (++asked === 3) await moves.disclaim(id, { generation: 0 }, 'c');
    });
    moveId = await order(a, b, id);
    await eventually(() => assert.match(b.sight(id).trouble ?? '', /not for this copy/));
  }
  await using b = await MovingNode.open(scratch, broker, 'b');
  await introduce(a, b, { id, moveId });
  await eventually(() => assert.match(b.sight(id).trouble ?? '', /not for this copy/));
  assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given');
  assert.deepEqual(await movesOf(b.pool).arriving(), [id]);
});

describe('a note of an earlier driver, which says that a volume is on another node', () => {
  test('is corrected once its pool opens, if the volume has come back; and not if it was handed over', async () => {
    using scratch = new Scratch('late');
    const broker = new Broker();
    const path = scratch.join('data-a', 'moved', `${id}.json`);
    {
      await using a = await MovingNode.open(scratch, broker, 'a');
      await using b = await MovingNode.open(scratch, broker, 'b');
      await filled(a);
      await moveAlong(id, a, b, a);
      await eventually(async () => assert.equal((await b.pool.trash()).length, 1));
    }
    const noted = async () => {
      await using a = await MovingNode.open(scratch, broker, 'a');
      return await movesOf(a.pool).noted(id);
    };
    for (const at of ['b', undefined]) {
      writeFileSync(path, JSON.stringify({ format: 1, generation: 1, at }));
      assert.deepEqual(await noted(), { generation: at === undefined ? 1 : 2, node: 'node' });
    }
    {
      await using a = await MovingNode.open(scratch, broker, 'a');
      const { fenceId } = await movesOf(a.pool).close(id, { moveId: 'any', fenceId: 'any', to: 'b' });
      await movesOf(a.pool).give(id, { moveId: 'any', fenceId });
    }
    assert.deepEqual(await noted(), { generation: 3, at: 'b', node: 'node' });
    // The note of the hand-over is the one before it, as its disk is one of before.
    writeFileSync(path, JSON.stringify({ format: 1, generation: 2, at: 'b' }));
    assert.deepEqual(await noted(), { generation: 2, at: 'b', node: 'node' });
  });
});
