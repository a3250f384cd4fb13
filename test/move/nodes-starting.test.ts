import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { peersOf } from '../../src/server/peers.ts';
import { eventually } from '../support/eventually.ts';
import { quiet } from '../support/pool-log.ts';
import { Scratch } from '../support/scratch.ts';
import { Broker, blockSpec, filled, introduce, MovingNode, order } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

/* A driver that starts knows the moves that it has left before its pools are open: one of them may never open. */

const mib = 1n << 20n;
const { id } = blockSpec;

/** The volume is fenced for its move from a to b, and both drivers have stopped. */
async function stoppedWhileFenced(scratch: Scratch, broker: Broker): Promise<void> {
  await using b = await MovingNode.open(scratch, broker, 'b');
  await using a = await MovingNode.open(scratch, broker, 'a');
  await filled(a, 8 << 20);
  await order(a, b, id, mib / 4n);
  await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, 'closed'));
}

describe('a driver that starts, and of which a pool does not open', () => {
  test('lets a move in that it has left, and does not say that it knows nothing of it', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using b = await MovingNode.open(scratch, broker, 'b', { xfs: true });
    let moveId: string;
    {
      await using a = await MovingNode.open(scratch, broker, 'a', { xfs: true });
      await filled(a, 8 << 20);
      moveId = await order(a, b, id, mib);
      await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
    }
    await eventually(() => assert.ok(b.sight(id).isUnconnected));
    await using a = await MovingNode.open(scratch, broker, 'a', { xfs: true, waitsFor: 'notes' });
    const again = a.leavings.admit({ id, moveId, node: 'b' }, 'again');
    await assert.rejects(again, { name: 'Unavailable', message: /is starting/ });
    b.nodes.connect('a', { host: '127.0.0.1', port: a.port });
    const look = b.nodes.source({ id, moveId, node: 'a' }, AbortSignal.timeout(5_000)).look();
    await assert.rejects(look, { name: 'Unavailable', message: /is starting/ });
    await a.mover.learn();
    await a.leavings.resume();
    await introduce(a, b, { id, moveId });
    assert.equal((await b.ended(id)).job.state, 'done');
    assert.deepEqual(await a.pool.listSnapshots(undefined, undefined), []);
  });

  test('lets no move to a third node in beside one that it has left', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    {
      await using before = await MovingNode.open(scratch, broker, 'b');
      await filled(a, 8 << 20);
      await order(a, before, id, mib / 4n);
    }
    await using b = await MovingNode.open(scratch, broker, 'b', { waitsFor: 'notes' });
    const toThird = () => b.leavings.admit({ id, moveId: randomUUID(), node: 'c' }, 'order');
    await assert.rejects(toThird(), { name: 'Unavailable', message: /is starting/ });
    await b.leavings.resume();
    await assert.rejects(toThird(), { name: 'Unavailable', message: /is starting/ });
    await b.mover.learn();
    await assert.rejects(toThird(), /is moving to another pool of this node/);
  });

  test('deletes a volume that does not move, and none that is coming from another node', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    {
      await using a = await MovingNode.open(scratch, broker, 'a', { waitsFor: 'pools' });
      await filled(a, 8 << 20);
      await a.delete(id);
      assert.equal(await a.pools.find(id), undefined);
    }
    await using a = await MovingNode.open(scratch, broker, 'a');
    await a.pool.create(blockSpec);
    {
      await using before = await MovingNode.open(scratch, broker, 'b');
      await order(a, before, id, mib / 4n);
    }
    await using b = await MovingNode.open(scratch, broker, 'b', { waitsFor: 'pools' });
    await assert.rejects(b.delete(id), /is moving here from node a/);
    await b.mover.resume();
    assert.equal(b.sight(id).job.state, 'running');
  });

  test('ends the fence of a target that is silent', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await stoppedWhileFenced(scratch, broker);
    await using a = await MovingNode.open(scratch, broker, 'a', { waitsFor: 'pools', fenceTimeoutMs: 100 });
    await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined));
  });

  test('ends that fence no sooner than a minute after the pool of the volume is open', async (t) => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await stoppedWhileFenced(scratch, broker);
    await using a = await MovingNode.open(scratch, broker, 'a', { waitsFor: 'notes' });
    let [laterMs, looks] = [0, 0];
    let isOpen = false;
    const now = performance.now.bind(performance);
    t.mock.method(performance, 'now', () => now() + laterMs);
    t.mock.method(a.pools, 'all', () => {
      looks++;
      return isOpen ? [a.pool] : [];
    });
    const looked = (count: number) => eventually(() => assert.ok(looks >= count));
    await a.leavings.resume();
    laterMs += 61_000;
    await looked(1);
    isOpen = true;
    await looked(3);
    assert.equal((await movesOf(a.pool).stateOf(id)).why, 'closed');
    laterMs += 61_000;
    await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined));
  });
});

test('a node that has no address for moves any more ends the fences of those that it has left', async () => {
  using scratch = new Scratch('nodes');
  const broker = new Broker();
  await stoppedWhileFenced(scratch, broker);
  await using a = await MovingNode.open(scratch, broker, 'a', { waitsFor: 'notes' });
  const peers = (node: string) =>
    peersOf(
      { link: undefined, side: undefined, movesSnapshots: false },
      {
        ...{ pools: a.pools, objects: a.objects, log: quiet, fenceTimeoutMs: 100 },
        ...{ dataDirectory: scratch.join(`data-${node}`), queue: new DiskQueue('own', 2) },
      },
      { isMovingHere: () => false, areComing: () => false },
    );
  assert.equal(await peers('b'), undefined, 'it has none');
  const { address, leavings } = (await peers('a')) ?? assert.fail('it knows of none');
  assert.equal(address, undefined);
  await leavings.resume();
  try {
    assert.equal(leavings.jobs()[0]?.state, 'running');
    await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined));
  } finally {
    await leavings.stop();
  }
});
