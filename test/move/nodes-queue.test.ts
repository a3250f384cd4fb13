import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, mock, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type VolumeId, volumeIdFor } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf, write } from './devices.ts';
import { Broker, blockSpec, filled, introduce, MovingNode, order } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

/* Many moves between two nodes at once: each waits for its turn before it leaves anything at its first node. */

const { id } = blockSpec;

async function another(node: MovingNode, name: string): Promise<VolumeId> {
  const other = volumeIdFor('node', 'test', name);
  await node.pool.create({ ...blockSpec, id: other, name });
  await using shown = await deviceOf(node, other);
  write(shown.devicePath, randomBytes(1 << 16), 1n << 20n);
  return other;
}

const whyOf = async (node: MovingNode, volumeId: VolumeId) => (await movesOf(node.pool).stateOf(volumeId)).why;

describe('a move for which too many others read its first node', () => {
  for (const xfs of [false, true]) {
    test(`leaves no ${xfs ? 'snapshot' : 'fence'} there, says that it waits, and comes to its turn`, async () => {
      using scratch = new Scratch('nodes');
      const broker = new Broker();
      await using a = await MovingNode.open(scratch, broker, 'a', { xfs });
      await using b = await MovingNode.open(scratch, broker, 'b', { readsAtOnce: 1 });
      await filled(a, 8 << 20);
      const second = await another(a, 'second');
      const snapshots = () => a.pool.listSnapshots(undefined, undefined, second);
      await order(a, b, id, 1n << 16n);
      await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
      await order(a, b, second);
      await eventually(() => assert.match(b.sight(second).trouble ?? '', /waits until fewer moves from node a copy/));
      assert.deepEqual([await whyOf(a, second), await snapshots()], [undefined, []]);
      // A pod can use it.
      await (await deviceOf(a, second))[Symbol.asyncDispose]();
      assert.ok(b.sight(second).trouble !== undefined);
      await b.mover.cancel(id);
      assert.equal((await b.ended(second)).job.state, 'done');
    });
  }

  test('and which has its pod ended comes before those that are copied in use', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a', { xfs: true });
    await using b = await MovingNode.open(scratch, broker, 'b', { readsAtOnce: 1 });
    await filled(a, 8 << 20);
    const [waiting, third] = [await another(a, 'waiting'), await another(a, 'third')];
    const used = await deviceOf(a, waiting);
    await using _third = await deviceOf(a, third);
    await order(a, b, waiting);
    await eventually(() => assert.equal(b.sight(waiting).progress?.phase, 'waiting'));
    await order(a, b, id, 1n << 16n);
    await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
    await order(a, b, third, 1n << 10n);
    await eventually(() => assert.match(b.sight(third).trouble ?? '', /waits until fewer moves/));
    // As long as it is in use it is asked now and then, and waits for no turn.
    await delay(2_500);
    assert.equal(b.sight(waiting).trouble, undefined);
    await used[Symbol.asyncDispose]();
    await eventually(() => assert.match(b.sight(waiting).trouble ?? '', /waits until fewer moves/));
    await b.mover.cancel(id);
    await eventually(() => assert.equal(b.sight(waiting).job.state, 'done'), 20_000);
  });

  test('keeps its turn from the fence to its end: no two are fenced where one may read', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b', { readsAtOnce: 1 });
    await filled(a, 8 << 20);
    const others = [await another(a, 'second'), await another(a, 'third')];
    await order(a, b, id, 1n << 16n);
    await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
    for (const each of others) await order(a, b, each, 1n << 13n);
    await eventually(() => {
      for (const each of others) assert.match(b.sight(each).trouble ?? '', /waits until fewer moves/);
    });
    await b.mover.cancel(id);
    await eventually(() => assert.ok(others.some((each) => (b.sight(each).progress?.doneBytes ?? 0n) > 0n)));
    const reasons = await Promise.all(others.map((each) => whyOf(a, each)));
    assert.deepEqual(
      reasons.filter((why) => why !== undefined),
      ['closed'],
    );
  });

  test('and was fenced before the drivers started again does not wait: its pod does', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    let second: VolumeId;
    let moveIds: readonly [string, string];
    {
      await using a = await MovingNode.open(scratch, broker, 'a');
      await using b = await MovingNode.open(scratch, broker, 'b', { readsAtOnce: 1 });
      second = await another(a, 'second');
      await filled(a, 8 << 20);
      const first = await order(a, b, id, 1n << 16n);
      await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
      moveIds = [first, await order(a, b, second, 1n << 13n)];
      await eventually(() => assert.match(b.sight(second).trouble ?? '', /waits until fewer moves/));
      assert.equal(await whyOf(a, id), 'closed');
    }
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b', { readsAtOnce: 1 });
    await introduce(a, b, { id: second, moveId: moveIds[1] }, 'order');
    await eventually(() => assert.ok((b.sight(second).progress?.doneBytes ?? 0n) > 0n));
    await introduce(a, b, { id, moveId: moveIds[0] });
    await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
    assert.equal(b.sight(second).job.state, 'running');
  });

  test('and was handed over does not wait: nothing of it is read any more', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b', { readsAtOnce: 1 });
    await filled(a, 8 << 20);
    const given = await another(a, 'given');
    const moves = movesOf(b.pool);
    const receive = moves.receive.bind(moves);
    const failing = mock.method(moves, 'receive', async (...args: Parameters<typeof receive>) => {
      const incoming = await receive(...args);
      incoming.commit = async () => {
        throw new Error('the disk has failed');
      };
      return incoming;
    });
    await order(a, b, given);
    await eventually(() => assert.equal(b.sight(given).trouble, 'the disk has failed'));
    failing.mock.restore();
    await order(a, b, id, 1n << 16n);
    await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
    assert.equal((await b.ended(given)).job.state, 'done');
    assert.equal(b.sight(id).progress?.phase, 'switching');
  });

  test('is one of forty that are ordered at once: all move, and none is fenced and not read', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    const ids: VolumeId[] = [];
    for (let at = 0; at < 40; at++) ids.push(await another(a, `volume ${at}`));
    const troubles = new Set<string>();
    await Promise.all(ids.map((each) => order(a, b, each, 1n << 14n)));
    await eventually(async () => {
      const sights = b.mover.sights();
      for (const { trouble } of sights) if (trouble !== undefined) troubles.add(trouble);
      assert.deepEqual(
        sights.map(({ job }) => job.state),
        ids.map(() => 'done'),
      );
    }, 120_000);
    assert.deepEqual([...troubles], ['it waits until fewer moves from node a copy at a time.']);
  });
});
