import assert from 'node:assert/strict';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { adminService } from '../../src/admin/service.ts';
import { deadlineOf } from '../../src/move/in-time.ts';
import type { VolumeId } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf, digestOf, write } from './devices.ts';
import { Broker, introduce, MovingNode, moveAlong, order } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

const mib = 1n << 20n;
const spec = volumeSpec('data', { content: { type: 'block' }, sizeBytes: 96n * mib });
const { id } = spec;

/** Attached as a device, until it is disposed of. */
const device = (node: MovingNode, volumeId: VolumeId = id) => deviceOf(node, volumeId);

async function digest(node: MovingNode): Promise<string> {
  await using shown = await device(node);
  return digestOf(shown.devicePath);
}

async function filled(node: MovingNode): Promise<void> {
  await node.pool.create(spec);
  await using shown = await device(node);
  write(shown.devicePath, randomBytes(20 << 20), 5n * mib);
  write(shown.devicePath, randomBytes(4096), 95n * mib);
}

/** It is published to a, which it leaves. */
async function movedWhilePublished(a: MovingNode, b: MovingNode): Promise<void> {
  await filled(a);
  await a.pool.setPublication(id, { nodeId: 'a', mode: 'SINGLE_NODE_WRITER', readonly: false }, []);
  await moveAlong(id, a, b);
}

describe('a move between two nodes', () => {
  for (const xfs of [true, false]) {
    const kinds = xfs ? 'pools that tell changed blocks' : 'pools that tell none';
    test(`of a volume that is not in use, there, back and there, between ${kinds}: the same bytes`, async () => {
      using scratch = new Scratch('nodes');
      const broker = new Broker();
      await using a = await MovingNode.open(scratch, broker, 'a', { xfs });
      await using b = await MovingNode.open(scratch, broker, 'b', { xfs });
      await filled(a);
      const before = await digest(a);
      for (const [source, target] of [
        [a, b],
        [b, a],
        [a, b],
      ] as const) {
        await order(source, target, id);
        const { job } = await target.ended(id);
        assert.deepEqual([job.state, job.reason, job.node], ['done', undefined, source.name]);
        assert.equal(await source.pools.find(id), undefined);
        // A pod that waits there hears of it.
        const elsewhere = new RegExp(
          `There is no volume ${id} on this node: it went to node ${target.name}\\. .* --resume`,
        );
        await assert.rejects(source.pools.require(id), { name: 'NotFound', message: elsewhere });
        assert.equal(await digest(target), before);
        const [left] = await source.pool.trash();
        assert.ok(Date.parse(left?.purgeAt ?? '') > Date.now() + 6.9 * 86_400_000, 'a week in the trash');
        assert.deepEqual(await source.pool.listSnapshots(undefined, undefined), []);
        assert.equal(source.leavings.jobs()[0]?.state, 'done');
      }
    });
  }

  test('of a volume that was published to the node that it leaves: it can be published where it is, and deleted', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await movedWhilePublished(a, b);
    assert.equal((await b.pool.find(id))?.publication, undefined);
    await b.delete(id, 'required');
    assert.equal(await b.pool.find(id), undefined);
  });

  test('of a published volume, which its first node takes back: it is published to no node, and can be deleted', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await movedWhilePublished(a, b);
    const admin = adminService({ nodeId: 'a', pools: a.pools, objects: a.objects, mover: a.mover });
    await eventually(async () => assert.equal((await a.pool.trash()).length, 1));
    await admin.restore({ id, lostNode: 'b' }, { note: () => undefined });
    assert.equal((await a.pool.find(id))?.publication, undefined);
    await a.delete(id, 'required');
    assert.equal(await a.pool.find(id), undefined);
  });

  test('of a volume in use: its changes are copied meanwhile, and it ends once it is idle', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a', { xfs: true });
    await using b = await MovingNode.open(scratch, broker, 'b');
    await filled(a);
    let before: string;
    {
      await using shown = await device(a);
      await order(a, b, id);
      await eventually(() => assert.equal(b.sight(id).progress?.phase, 'waiting'));
      write(shown.devicePath, randomBytes(8 << 20), 60n * mib);
      write(shown.devicePath, Buffer.alloc(4 << 20), 4n * mib);
      before = createHash('sha256').update(readFileSync(shown.devicePath)).digest('hex');
    }
    assert.equal((await b.ended(id)).job.state, 'done');
    assert.equal(await digest(b), before);
    await assert.rejects(device(a), { name: 'NotFound' });
  });

  test('that is about to come is waited for, and one that does not move is not', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await filled(a);
    await b.mover.arrival(id);
    await order(a, b, id);
    await b.mover.arrival(id);
    assert.notEqual(await b.pool.find(id), undefined);
    assert.equal(b.sight(id).job.state, 'done');
  });

  test('only a node that the controller has admitted gets anything, and only of that move', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await using c = await MovingNode.open(scratch, broker, 'c');
    await using stranger = await MovingNode.open(scratch, new Broker(), 'd');
    await filled(a);
    const moveId = randomUUID();
    for (const node of [b, c, stranger]) node.nodes.connect('a', { host: '127.0.0.1', port: a.port });
    const look = (node: MovingNode, move: string) =>
      node.nodes.source({ id, moveId: move, node: 'a' }, AbortSignal.timeout(5_000)).look();
    await assert.rejects(look(b, moveId), { name: 'NotConnected', message: /knows nothing of a move/ });
    await a.leavings.admit({ id, moveId, node: 'b' }, 'order');
    assert.equal((await look(b, moveId))?.record.id, id);
    await assert.rejects(look(c, moveId), { name: 'NotConnected', message: /another node was admitted/ });
    await assert.rejects(look(b, randomUUID()), { name: 'NotConnected', message: /knows nothing of a move/ });
    await assert.rejects(look(stranger, moveId), { name: 'NotConnected', message: /cannot be reached/ });
    // Another machine answers at the address of a.
    b.nodes.connect('a', { host: '127.0.0.1', port: c.port });
    await assert.rejects(look(b, moveId), { name: 'NotConnected', message: /cannot be reached .*altnames/i });
  });

  test('that its source has not begun, or has forgotten, is not let in by the ticket of an earlier order', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await filled(a);
    const again = (moveId: string) => a.leavings.admit({ id, moveId, node: 'b' }, 'again');
    await assert.rejects(again(randomUUID()), { name: 'MoveForgotten', message: /order it again/ });
    // Waits for its pod, and has left nothing at its source but its note.
    {
      await using _used = await device(a);
      const moveId = await order(a, b, id);
      await eventually(() => assert.equal(b.sight(id).progress?.phase, 'waiting'));
      await again(moveId);
      await b.mover.cancel(id);
      await assert.rejects(again(moveId), { name: 'MoveEnded' });
      // Another move comes between.
      await order(a, b, id);
      await eventually(() => assert.equal(b.sight(id).progress?.phase, 'waiting'));
      await b.mover.cancel(id);
      await assert.rejects(again(moveId), { name: 'MoveForgotten' });
      b.nodes.connect('a', { host: '127.0.0.1', port: a.port });
      const look = b.nodes.source({ id, moveId, node: 'a' }, AbortSignal.timeout(5_000)).look();
      await assert.rejects(look, { name: 'MoveForgotten', message: /order it again/ });
    }
    await order(a, b, id);
    assert.equal((await b.ended(id)).job.state, 'done');
  });

  test('is resumed after either driver has started again, once the controller has brought them together', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    let a = await MovingNode.open(scratch, broker, 'a', { xfs: true });
    let b = await MovingNode.open(scratch, broker, 'b', { xfs: true });
    try {
      await filled(a);
      const before = await digest(a);
      const moveId = await order(a, b, id, 4n * mib);
      await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 2n * mib));
      await a[Symbol.asyncDispose]();
      await eventually(() => assert.ok(b.sight(id).isUnconnected));
      a = await MovingNode.open(scratch, broker, 'a', { xfs: true });
      await introduce(a, b, { id, moveId });
      await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 2n * mib));
      await b[Symbol.asyncDispose]();
      b = await MovingNode.open(scratch, broker, 'b', { xfs: true });
      await eventually(() => assert.ok(b.sight(id).isUnconnected));
      await introduce(a, b, { id, moveId });
      assert.equal((await b.ended(id)).job.state, 'done');
      assert.equal(await digest(b), before);
      assert.equal(await a.pools.find(id), undefined);
    } finally {
      await a[Symbol.asyncDispose]();
      await b[Symbol.asyncDispose]();
    }
  });

  test('ends its fence when the target is silent, and goes on when that is back', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a', { fenceTimeoutMs: 3_000 });
    let b = await MovingNode.open(scratch, broker, 'b');
    try {
      await filled(a);
      const moveId = await order(a, b, id, 4n * mib);
      await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, 'closed'));
      await assert.rejects(device(a), /is moving out of pool/);
      await b[Symbol.asyncDispose]();
      await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined));
      {
        await using shown = await device(a);
        write(shown.devicePath, randomBytes(1 << 20), 50n * mib);
      }
      const before = await digest(a);
      b = await MovingNode.open(scratch, broker, 'b');
      await introduce(a, b, { id, moveId });
      assert.equal((await b.ended(id)).job.state, 'done');
      assert.equal(await digest(b), before);
    } finally {
      await b[Symbol.asyncDispose]();
    }
  });

  test('is cancelled at either end, and nothing of it is left', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a', { xfs: true });
    await using b = await MovingNode.open(scratch, broker, 'b');
    await filled(a);
    const before = await digest(a);
    await order(a, b, id, 4n * mib);
    await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
    assert.equal((await b.mover.cancel(id)).state, 'cancelled');
    assert.deepEqual(await a.pool.listSnapshots(undefined, undefined), []);
    assert.equal(a.leavings.jobs()[0]?.state, 'cancelled');
    await order(a, b, id, 4n * mib);
    await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
    assert.equal((await a.leavings.cancel(id, false))?.state, 'cancelled');
    assert.deepEqual(await a.pool.listSnapshots(undefined, undefined), []);
    assert.equal(await digest(a), before);
    assert.equal(await b.pools.find(id), undefined);
  });

  test('that was cancelled at its source does not go on when the target is back', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a', { xfs: true });
    await using b = await MovingNode.open(scratch, broker, 'b');
    await filled(a);
    const moveId = await order(a, b, id, 4n * mib);
    await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
    assert.equal((await a.leavings.cancel(id, false))?.state, 'cancelled');
    await assert.rejects(a.leavings.admit({ id, moveId, node: 'b' }, 'again'), /was cancelled where the volume is/);
    await introduce(a, b, { id, moveId });
    const { job } = await b.ended(id);
    assert.equal(job.state, 'failed');
    assert.match(job.reason ?? '', /was cancelled where the volume is/);
    assert.notEqual(await a.pools.find(id), undefined);
    assert.equal((await b.mover.cancel(id)).state, 'cancelled');
    // A new order of the same move is another matter.
    await introduce(a, b, { id, moveId }, 'order');
    await b.mover.startFrom({ id, moveId, node: 'a', to: undefined, ticket: '', limitBytesPerSecond: undefined });
    assert.equal((await b.ended(id)).job.state, 'done');
  });

  test('that is only planned admits no more than a look, and ends no other move', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a', { xfs: true, fenceTimeoutMs: 500 });
    await using c = await MovingNode.open(scratch, broker, 'c');
    await filled(a);
    {
      await using b = await MovingNode.open(scratch, broker, 'b');
      await order(a, b, id, 4n * mib);
      await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
    }
    const moveId = randomUUID();
    await eventually(() => introduce(a, c, { id, moveId }, 'plan'));
    assert.equal((await c.mover.planFrom({ id, moveId, node: 'a', to: undefined })).node, 'a');
    assert.equal(a.leavings.jobs()[0]?.state, 'running');
    const source = c.nodes.source({ id, moveId, node: 'a' }, AbortSignal.timeout(10_000));
    await assert.rejects(source.close({ moveId, fenceId: 'x' }), /knows nothing of a move/);
    await assert.rejects(source.look(), /knows nothing of a move/);
  });

  test('that was handed over is cancelled only once its target has noted that it commits nothing', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await filled(a);
    const before = await digest(a);
    const target = movesOf(b.pool);
    const receive = target.receive.bind(target);
    let isBroken = true;
    target.receive = async (...args) => {
      const incoming = await receive(...args);
      const commit = incoming.commit.bind(incoming);
      incoming.commit = async (...given) => {
        if (isBroken) throw new Error('the disk has failed');
        return commit(...given);
      };
      return incoming;
    };
    await order(a, b, id);
    await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given'));
    await assert.rejects(device(a), /was handed over/);
    await assert.rejects(a.leavings.cancel(id, false), /was handed over to node b/);
    await assert.rejects(a.mover.cancel(id), /handed over to node b: cancel the move there/);
    await assert.rejects(a.delete(id), /was handed over/);
    await assert.rejects(b.delete(id), /is moving here from node a/);
    await b.mover.cancel(id);
    assert.equal(await digest(a), before);
    isBroken = false;
    // What was given before is committed by no one; a new move goes through.
    await order(a, b, id);
    assert.equal((await b.ended(id)).job.state, 'done');
    assert.equal(await digest(b), before);
  });

  test('whose target is lost for good: the copy of the switch is the volume again only by the word of the operator', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await filled(a);
    const before = await digest(a);
    {
      await using b = await MovingNode.open(scratch, broker, 'b');
      await order(a, b, id);
      assert.equal((await b.ended(id)).job.state, 'done');
    }
    const admin = adminService({ nodeId: 'a', pools: a.pools, objects: a.objects, mover: a.mover });
    const call = { note: () => undefined };
    await assert.rejects(admin.restore({ id }, call), /has moved since this copy of it, and may be on node b/);
    await assert.rejects(
      admin.restore({ id, lostNode: 'c' }, call),
      /has moved since this copy of it, and may be on node b/,
    );
    assert.equal(await a.pools.find(id), undefined);
    await admin.restore({ id, lostNode: 'b' }, call);
    assert.equal(await digest(a), before);
  });

  test('that has arrived at a target which has forgotten it: its source believes the target, and no other node', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await filled(a);
    const moveId = randomUUID();
    const fence = { moveId, fenceId: 'fence' };
    await assert.rejects(a.mover.copies.settle(id, 7, 'b'), {
      name: 'FailedPrecondition',
      message: /not handed over to node b/,
    });
    await a.leavings.begin({ id, moveId, node: 'b' });
    await movesOf(a.pool).close(id, { ...fence, to: 'b' });
    await assert.rejects(a.mover.copies.settle(id, 7, 'b'), {
      name: 'FailedPrecondition',
      message: /not handed over to node b/,
    });
    const { createdAt } = (await a.pool.find(id)) ?? assert.fail();
    assert.deepEqual(await a.mover.copies.look(id), {
      generation: 0,
      isVolume: true,
      isHere: true,
      elsewhere: undefined,
      createdAt,
    });
    const answer = await movesOf(a.pool).give(id, fence);
    const record = await movesOf(b.pool).recordFor((await a.pool.find(id)) ?? assert.fail());
    {
      await using incoming = await movesOf(b.pool).receive(record, moveId);
      await incoming.commit(record, { mark: { moveId, readUnder: fence.fenceId }, answer, from: 'a' });
    }
    assert.deepEqual(await b.mover.copies.look(id), {
      generation: 1,
      isVolume: true,
      isHere: true,
      elsewhere: undefined,
      createdAt,
    });
    assert.deepEqual(await a.mover.copies.look(id), {
      generation: 0,
      isVolume: false,
      isHere: true,
      elsewhere: 'b',
      createdAt,
    });
    await assert.rejects(a.mover.copies.settle(id, 0, 'b'), { name: 'FailedPrecondition' });
    await assert.rejects(a.mover.copies.settle(id, 1, 'c'), {
      name: 'FailedPrecondition',
      message: /not handed over to node c/,
    });
    await a.mover.copies.settle(id, 1, 'b');
    assert.equal(await a.pools.find(id), undefined);
    assert.equal(a.leavings.jobs()[0]?.state, 'done');
    await a.mover.copies.settle(id, 1, 'b');
    await assert.rejects(b.mover.copies.settle(id, 2, 'a'), {
      name: 'FailedPrecondition',
      message: /not handed over to node a/,
    });
    assert.notEqual(await b.pools.find(id), undefined);
    const [trashed] = await a.pool.trash();
    assert.equal(trashed?.record.id, id);
  });

  test('that a node had made which was lost: its copy there is outdated, and a move that comes again is not', async (t) => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await filled(a);
    await order(a, b, id);
    assert.equal((await b.ended(id)).job.state, 'done');
    // The operator says that b is lost.
    const admin = adminService({ nodeId: 'a', pools: a.pools, objects: a.objects, mover: a.mover });
    await admin.restore({ id, lostNode: 'b' }, { note: () => undefined });
    const { generation } = await a.mover.copies.look(id);
    const by = { generation, node: 'a', at: new Date().toISOString() };
    assert.equal(await b.mover.copies.outdate(id, by), true);
    assert.equal(await b.pools.find(id), undefined);
    assert.equal(b.sight(id).job.state, 'cancelled');
    await order(a, b, id);
    await b.mover.copies.outdate(id, by);
    assert.equal((await b.ended(id)).job.state, 'done');
    assert.equal(await b.mover.copies.outdate(id, by), false);
    // A pool that is not open there can have no later one; on a node without the volume it can.
    const closed = [b, a].map((node) => t.mock.method(node.pools, 'firstClosed', () => 'second'));
    assert.equal(await b.mover.copies.outdate(id, by), false);
    await assert.rejects(a.mover.copies.outdate(id, { ...by, node: 'b' }), { name: 'Unavailable' });
    for (const each of closed) each.mock.restore();
    assert.notEqual(await b.pools.find(id), undefined);
    assert.equal(b.sight(id).job.state, 'done');
  });

  test('within a node, before the clock was set back: the copy that was used last comes back', async (t) => {
    using scratch = new Scratch('nodes');
    await using a = await MovingNode.open(scratch, new Broker(), 'a', { poolNames: ['data', 'second'] });
    await filled(a);
    await a.mover.start(id, 'second', undefined);
    assert.equal((await a.ended(id)).job.state, 'done');
    const second = a.pools.get('second');
    await second.modify(id, { undeleteSeconds: 86_400 });
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() - 3_600_000 });
    await a.delete(id);
    t.mock.timers.reset();
    const [older, later] = [await a.pool.trash(), await second.trash()];
    assert.ok((older[0]?.deletedAt ?? '') > (later[0]?.deletedAt ?? ''));
    const admin = adminService({ nodeId: 'a', pools: a.pools, objects: a.objects, mover: a.mover });
    assert.equal((await admin.restore({ id }, { note: () => undefined })).pool, 'second');
    assert.notEqual(await second.find(id), undefined);
  });

  test('that has ended lets its target do nothing more, also if the volume has come back', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    await filled(a);
    const moveId = await order(a, b, id);
    assert.equal((await b.ended(id)).job.state, 'done');
    await order(b, a, id);
    assert.equal((await a.ended(id)).job.state, 'done');
    const source = b.nodes.source({ id, moveId, node: 'a' }, AbortSignal.timeout(5_000));
    await assert.rejects(source.close({ moveId, fenceId: 'stolen' }), { name: /NotConnected|MoveEnded/ });
    const read = source.read({ of: undefined, fromBytes: 0n, signal: AbortSignal.timeout(5_000) });
    await assert.rejects(read, { name: /NotConnected|MoveEnded/ });
    // Nor once the controller has let it in again, to hear of the end.
    await a.leavings.admit({ id, moveId, node: 'b' }, 'again').catch(() => undefined);
    await assert.rejects(source.close({ moveId, fenceId: 'stolen' }), { name: /NotConnected|MoveEnded/ });
    assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined);
  });

  test('to a lost node is taken back by the name of that node alone, and not after its caller has gone', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    await filled(a);
    const fence = { moveId: randomUUID(), fenceId: 'fence' };
    await movesOf(a.pool).close(id, { ...fence, to: 'b' });
    await movesOf(a.pool).give(id, fence);
    await assert.rejects(a.mover.cancel(id, { lostNode: 'c' }), /was handed over by pool data, and may be on node b/);
    const late = { lostNode: 'b', deadline: deadlineOf(new Date(Date.now() - 1)) };
    await assert.rejects(a.mover.cancel(id, late), { name: 'Unavailable', message: /was not taken back in time/ });
    assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given');
    await a.mover.cancel(id, { ...late, deadline: deadlineOf(new Date(Date.now() + 60_000)) });
    assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined);
  });

  test('to a lost node is not taken back from the trash after its caller has gone, and by the same command then', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    {
      await using b = await MovingNode.open(scratch, broker, 'b');
      await filled(a);
      await order(a, b, id);
      assert.equal((await b.ended(id)).job.state, 'done');
    }
    const admin = adminService({ nodeId: 'a', pools: a.pools, objects: a.objects, mover: a.mover });
    const deadline = new Date(Date.now() + 60_000);
    const restore = a.pool.restore.bind(a.pool);
    a.pool.restore = async (volumeId) => {
      const restored = await restore(volumeId);
      deadline.setTime(0);
      return restored;
    };
    const late = admin.restore({ id, lostNode: 'b' }, { note: () => undefined, deadline });
    await assert.rejects(late, { name: 'Unavailable', message: /not taken back in time: the same command again/ });
    assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given');
    const again = { note: () => undefined, deadline };
    await assert.rejects(admin.restore({ id, lostNode: 'b' }, again), { message: /was not taken back in time/ });
    await assert.rejects(admin.restore({ id }, again), {
      name: 'FailedPrecondition',
      message: /has a copy of volume .* that is not the volume.* the same command as then/,
    });
    await admin.restore({ id, lostNode: 'b' }, { note: () => undefined });
    assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined);
  });

  test('ends when its volume is deleted at the source, and leaves nothing at either end', async () => {
    using scratch = new Scratch('nodes');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a', { xfs: true });
    await using b = await MovingNode.open(scratch, broker, 'b');
    await filled(a);
    const moveId = await order(a, b, id, 4n * mib);
    await eventually(() => assert.ok((b.sight(id).progress?.doneBytes ?? 0n) > 0n));
    await a.delete(id);
    assert.deepEqual(await a.pool.listSnapshots(undefined, undefined), []);
    await eventually(() => assert.ok(b.sight(id).isUnconnected || b.sight(id).job.state === 'failed'));
    await introduce(a, b, { id, moveId });
    assert.match(
      (await b.ended(id)).job.reason ?? '',
      /is not in node a any more|not on this node|the volume was deleted/,
    );
    assert.deepEqual(
      await movesOf(b.pool)
        .receive(spec2(), randomUUID())
        .then(async (incoming) => {
          const { isNew } = incoming;
          await incoming[Symbol.asyncDispose]();
          return isNew;
        }),
      true,
    );
  });
});

function spec2() {
  const { id: volumeId, name, content, sizeBytes } = spec;
  return {
    ...{ id: volumeId, name, content, sizeBytes, accessModes: [], provisioning: 'thin' as const },
    ...{ parameters: {}, blockSizeBytes: 512, createdAt: new Date().toISOString() },
  };
}
