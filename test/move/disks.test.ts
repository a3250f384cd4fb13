import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { showPlan } from '../../src/admin/moving.ts';
import { planLines } from '../../src/cli/move.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { writeAt } from '../../src/kernel/file/file.ts';
import type { Peers } from '../../src/move/peers.ts';
import type { MoveSource } from '../../src/move/source.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { formatOf } from '../../src/pool/kinds/disk/label/payload.ts';
import type { IncomingBytes } from '../../src/pool/moves.ts';
import type { VolumeId } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { LoopDisk, openLoopDisk } from '../support/loop-disk-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf, digestOf, write } from './devices.ts';
import { DiskNode } from './disk-node.ts';
import { Broker, MovingNode, order } from './two-nodes.ts';
import { movesOf } from './two-pools.ts';

const mib = 1n << 20n;
const dataBytes = 64n * mib;
const moveId = 'move-1';
const fence = { moveId, fenceId: 'fence-1' };
const spec = volumeSpec('data', { content: { type: 'block' }, provisioning: 'thick', sizeBytes: dataBytes });
const { id } = spec;
const zeros = createHash('sha256')
  .update(Buffer.alloc(Number(dataBytes)))
  .digest('hex');
const other = { ...spec, id: volumeSpec('other').id, name: 'other' };

async function receive(pool: Catalog, move = moveId): Promise<IncomingBytes> {
  const record = await movesOf(pool).recordFor(spec as never);
  const incoming = await movesOf(pool).receive(record, move);
  return incoming.kind === 'bytes' ? incoming : assert.fail();
}

async function isFree(pool: Pick<Catalog, 'capacity'>): Promise<void> {
  await eventually(async () => assert.ok((await pool.capacity()).availableBytes > 0n));
}

/** Fills a volume, with parts that are zeros. @returns its digest */
async function fill(node: Pick<DiskNode, 'pools'>, volumeId: VolumeId): Promise<string> {
  await using device = await deviceOf(node, volumeId);
  write(device.devicePath, randomBytes(4096), 0n);
  write(device.devicePath, randomBytes(1 << 20), 33n * mib + 4096n);
  write(device.devicePath, randomBytes(4096), dataBytes - 4096n);
  return digestOf(device.devicePath);
}

async function contentOf(node: Pick<DiskNode, 'pools'>, volumeId: VolumeId): Promise<string> {
  await using device = await deviceOf(node, volumeId);
  return digestOf(device.devicePath);
}

/** Orders a move to disk `two` that fails once a part was copied there. */
async function fails(node: DiskNode, two: LoopDisk): Promise<void> {
  const target = movesOf(node.pools.get('two'));
  const receive = target.receive.bind(target);
  const broken = mock.method(target, 'receive', async (...args: Parameters<typeof receive>) => {
    const incoming = await receive(...args);
    const note = incoming.note.bind(incoming);
    incoming.note = async (text) => {
      if (two.payload.object?.incoming !== '') throw new Error('the disk fails');
      return note(text);
    };
    return incoming;
  });
  await node.mover.start(id, 'two', undefined);
  await eventually(() => assert.equal(node.sight(id)?.job.state, 'failed'));
  broken.mock.restore();
}

describe('a volume that is a disk, or becomes one', () => {
  test('moves with all its bytes, whatever the disk held, and its mark lies in the label', async () => {
    using scratch = new Scratch('move');
    const [one, two] = [new LoopDisk(scratch, 'one'), new LoopDisk(scratch, 'two')];
    await using node = await DiskNode.open(scratch, { one, two });
    await node.pools.get('images').create({ ...spec, provisioning: 'thin' });
    const digest = await fill(node, id);
    {
      const before = await receive(node.pools.get('one') as Catalog);
      await writeAt(new DiskQueue('test', 1), before.data, randomBytes(Number(dataBytes)), 0n);
      await before[Symbol.asyncDispose]();
      await movesOf(node.pools.get('one')).discard(id);
    }
    for (const [at, to] of ['one', 'two', 'images'].entries()) {
      const { pool: from } = await node.pools.require(id);
      assert.equal((await node.mover.plan(id, to)).isCopiedInUse, false);
      await node.move(id, to);
      assert.equal(await contentOf(node, id), digest, to);
      const { pool } = await node.pools.require(id);
      assert.deepEqual(await movesOf(pool).stateOf(id), { mark: { generation: at + 1 }, why: undefined });
      assert.equal(await movesOf(from).hasLeft(id), true);
      await eventually(async () => assert.deepEqual(await from.inUse(id), []));
    }
    assert.deepEqual(
      [one, two].map(({ payload }) => [payload.object?.state, formatOf(payload)]),
      [
        ['trash', 2],
        ['trash', 2],
      ],
    );
    for (const name of ['one', 'two']) {
      await node.pools.get(name).purge();
      await isFree(node.pools.get(name));
    }
    assert.deepEqual(
      [one, two].map(({ payload }) => formatOf(payload)),
      [1, 1],
    );
  });

  test('grows to all of the disk, and does not move to one that is too small, has larger sectors or is not empty', async () => {
    using scratch = new Scratch('move');
    const disks = {
      one: new LoopDisk(scratch, 'one'),
      small: new LoopDisk(scratch, 'small', { dataMebibytes: 32 }),
      sectors: new LoopDisk(scratch, 'sectors', { sectorBytes: 4096 }),
    };
    await using node = await DiskNode.open(scratch, disks);
    const one = node.pools.get('one');
    await node.pools.get('images').create({ ...spec, sizeBytes: 40n * mib });
    const plan = await node.mover.plan(id, 'one');
    assert.equal(plan.arrival.sizeBytes, dataBytes);
    assert.match(planLines(showPlan(plan)).join('\n'), /^It grows from 40Mi to 64Mi, as the pool gives no other size/m);
    const refuses = async (to: keyof typeof disks, reason: RegExp) => {
      const { writes } = disks[to];
      await assert.rejects(node.mover.plan(id, to), reason);
      await assert.rejects(node.mover.start(id, to, undefined), reason);
      assert.equal(disks[to].writes, writes);
      assert.deepEqual(node.mover.sights(), []);
    };
    await refuses('small', /needs 41943040 bytes, and the pool's disk has 33554432 for its volume/);
    await refuses('sectors', /sectors of 4096/);
    await one.create(other);
    await refuses('one', /pool one has its one volume already/);
    await one.remove(other.id);
    await refuses('one', /the deleted one can still be restored/);
    await one.restore(other.id);
  });

  test('moves between nodes: to another disk, to images, and back', async () => {
    using scratch = new Scratch('move');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a', { disk: new LoopDisk(scratch, 'one') });
    await using b = await MovingNode.open(scratch, broker, 'b', { disk: new LoopDisk(scratch, 'two') });
    await using c = await MovingNode.open(scratch, broker, 'c');
    await a.pool.create(spec);
    const digest = await fill(a, id);
    for (const [from, to] of [
      [a, b],
      [b, c],
      [c, a],
    ] as const) {
      await order(from, to, id);
      const { job } = await to.ended(id);
      assert.deepEqual([job.state, job.reason], ['done', undefined]);
      assert.equal(await contentOf(to, id), digest);
      assert.equal(await from.pools.find(id), undefined);
      await from.pool.purge();
      await isFree(from.pool);
    }
  });

  test('begins again where its fence has ended meanwhile, once what was copied is wiped', async () => {
    using scratch = new Scratch('move');
    const disks = { one: new LoopDisk(scratch, 'one'), two: new LoopDisk(scratch, 'two') };
    let digest = '';
    {
      await using node = await DiskNode.open(scratch, disks);
      await node.pools.get('one').create(spec);
      await fill(node, id);
      await node.mover.start(id, 'two', 32n * mib);
      await eventually(() => assert.ok((node.mover.sights()[0]?.progress?.doneBytes ?? 0n) > 0n));
      const move = node.mover.sights()[0]?.job.moveId ?? assert.fail();
      await node.mover.stop();
      await movesOf(node.pools.get('one')).open(id, move);
      digest = await fill(node, id);
    }
    await using node = await DiskNode.open(scratch, disks);
    await eventually(async () => assert.equal((await node.pools.require(id)).pool.name, 'two'));
    assert.equal(await contentOf(node, id), digest);
  });

  test('whose move to a disk has failed goes on with the same command, and can be given up by it where no note is left', async () => {
    using scratch = new Scratch('move');
    const disks = { one: new LoopDisk(scratch, 'one'), two: new LoopDisk(scratch, 'two') };
    {
      await using node = await DiskNode.open(scratch, disks);
      await node.pools.get('one').create(spec);
      const digest = await fill(node, id);
      await fails(node, disks.two);
      await node.move(id, 'two');
      assert.equal(await contentOf(node, id), digest);
      await node.pools.get('one').purge();
      await isFree(node.pools.get('one'));
      await node.move(id, 'one');
      await node.pools.get('two').purge();
      await isFree(node.pools.get('two'));
      await fails(node, disks.two);
    }
    rmSync(scratch.join('data/moves'), { recursive: true });
    await using node = await DiskNode.open(scratch, disks);
    await isFree(node.pools.get('two'));
  });

  test('frees the disk of a move that failed long ago, and of one that was given up while that was not open', async () => {
    using scratch = new Scratch('move');
    const disks = { one: new LoopDisk(scratch, 'one'), two: new LoopDisk(scratch, 'two') };
    {
      await using node = await DiskNode.open(scratch, disks);
      await node.pools.get('one').create(spec);
      await fails(node, disks.two);
    }
    const path = scratch.join('data/moves', `${id}.json`);
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), endedAt: '2020-01-01T00:00:00Z' }));
    await using node = await DiskNode.open(scratch, disks);
    assert.equal(node.sight(id), undefined);
    assert.equal(existsSync(path), false);
    await isFree(node.pools.get('two'));
    await fails(node, disks.two);
    // As in quarantine.
    const sick = mock.method(node.pools, 'all', () => [node.pools.get('images'), node.pools.get('one')]);
    assert.equal((await node.mover.cancel(id)).state, 'cancelled');
    sick.mock.restore();
    assert.equal(disks.two.payload.object?.state, 'draft');
    await isFree(node.pools.get('two'));
    await assert.rejects(node.mover.cancel(id), { name: 'NotFound' });
  });

  test('comes from another node only where its pool is named, or has the same name', async () => {
    using scratch = new Scratch('move');
    const record = { ...spec, blockSizeBytes: 512, sizeBytes: 48n * mib, createdAt: new Date().toISOString() };
    let pool = 'elsewhere';
    const source = {
      describe: async () => ({
        ...{ record, pool, state: { mark: { generation: 0 }, why: undefined }, usedBytes: 0n, snapshots: 0 },
        ...{ isUsed: false, hasChanges: false },
      }),
    };
    const peers = { source: () => source as unknown as MoveSource } as unknown as Peers;
    await using node = await DiskNode.open(scratch, { one: new LoopDisk(scratch, 'one') }, peers);
    const to = async (name: string | undefined) => (await node.mover.planFrom({ id, moveId, node: 'b', to: name })).to;
    assert.equal(await to(undefined), 'images');
    await node.pools.get('images').create(spec);
    await assert.rejects(to(undefined), { name: 'AlreadyExists' });
    await node.pools.get('images').remove(id);
    record.sizeBytes = 1n << 50n;
    await assert.rejects(to(undefined), /does not fit into pool images/);
    record.sizeBytes = 48n * mib;
    assert.equal(await to('one'), 'one');
    pool = 'one';
    assert.equal(await to(undefined), 'one');
  });

  test('destroys nothing in the trash, also what came there just now', async () => {
    using scratch = new Scratch('move');
    const disk = new LoopDisk(scratch, 'one');
    const pool = await openLoopDisk(scratch, disk, { undeleteSeconds: 60 });
    const record = await movesOf(pool).recordFor(spec as never);
    await pool.create(other);
    await pool.remove(other.id);
    await assert.rejects(movesOf(pool).receive(record, moveId), { name: 'FailedPrecondition' });
    assert.equal(disk.payload.object?.state, 'trash');
    await pool.restore(other.id);
    await pool.close();
  });

  test('on its way outlives a restart, and nothing else is made in its place', async () => {
    using scratch = new Scratch('move');
    const disk = new LoopDisk(scratch, 'one');
    const pool = await openLoopDisk(scratch, disk);
    {
      await using incoming = await receive(pool);
      await incoming.note(`${moveId}\nhalf`);
    }
    await pool.close();
    const again = await openLoopDisk(scratch, disk);
    await assert.rejects(again.create(other), /receives a volume that moves there/);
    assert.throws(() => again.moves?.snapshots.requireRoomFor({ id: 'snap' } as never));
    {
      await using incoming = await receive(again);
      assert.deepEqual([incoming.isNew, incoming.noted], [false, `${moveId}\nhalf`]);
      await incoming.commit(spec as never, {
        mark: { moveId, readUnder: fence.fenceId },
        answer: { ...fence, generation: 1 },
        from: undefined,
      });
    }
    assert.equal((await again.find(id))?.id, id);
    await again.close();
    const last = await openLoopDisk(scratch, disk);
    assert.deepEqual(await movesOf(last).stateOf(id), { mark: { generation: 1 }, why: undefined });
    await last.close();
  });

  test('is wiped where its move is given up, but for a disk that nothing was written to', async () => {
    using scratch = new Scratch('move');
    const disk = new LoopDisk(scratch, 'one');
    const pool = await openLoopDisk(scratch, disk);
    await (await receive(pool))[Symbol.asyncDispose]();
    await movesOf(pool).discard(id);
    assert.equal(disk.payload.object, undefined);
    {
      await using incoming = await receive(pool);
      await incoming.note(`${moveId}\nhalf`);
      await writeAt(new DiskQueue('test', 1), incoming.data, Buffer.alloc(4096, 1), 40n * mib);
    }
    // Another move, of which this node knew nothing, waits for that.
    await assert.rejects(receive(pool, 'move-2'), { name: 'Unavailable', message: /still being wiped/ });
    await isFree(pool);
    await pool.create({ ...spec, id: other.id });
    const attached = await pool.attach(other.id, { persistent: true });
    assert.ok(attached.kind === 'device');
    await attached.release();
    assert.equal(digestOf(attached.devicePath), zeros);
    await pool.detach(attached);
    await pool.close();
  });

  test('is what its label says after a write of that has failed, and is on the disk', async () => {
    using scratch = new Scratch('move');
    const [from, to] = [new LoopDisk(scratch, 'one'), new LoopDisk(scratch, 'two')];
    const source = await openLoopDisk(scratch, from, { name: 'one' });
    const target = await openLoopDisk(scratch, to, { name: 'two' });
    await source.create(spec);
    from.failsNext = true;
    await assert.rejects(movesOf(source).close(id, fence), /the disk fails/);
    assert.equal((await movesOf(source).stateOf(id)).why, 'closed');
    await movesOf(source).open(id, moveId);
    Object.assign(from, { failsNext: true, failsReads: true });
    await assert.rejects(movesOf(source).close(id, fence), /the disk fails/);
    await assert.rejects(movesOf(source).stateOf(id), /the disk fails/);
    from.failsReads = false;
    assert.equal((await movesOf(source).stateOf(id)).why, 'closed');
    await movesOf(source).open(id, moveId);
    to.failsNext = true;
    await assert.rejects(receive(target), /the disk fails/);
    await (await receive(target))[Symbol.asyncDispose]();
    await source.close();
    await target.close();
  });

  test('leaves nothing on a disk whose label was written by a write that failed, once its move is given up', async () => {
    using scratch = new Scratch('move');
    const disks = { one: new LoopDisk(scratch, 'one'), two: new LoopDisk(scratch, 'two') };
    const two = () => disks.two.payload.object;
    await using node = await DiskNode.open(scratch, disks);
    await node.pools.get('one').create(spec);
    disks.two.failsNext = true;
    await node.mover.start(id, 'two', undefined);
    await eventually(() => assert.equal(node.sight(id)?.job.state, 'failed'));
    assert.equal(two()?.incoming, '');
    assert.equal((await node.mover.cancel(id)).state, 'cancelled');
    assert.equal(two(), undefined);
    // It would remove a copy that no move has ordered.
    await node.mover.stop();
    {
      await using incoming = await receive(node.pools.get('two') as Catalog);
      await incoming.note(`${moveId}\nhalf`);
    }
    disks.two.failsNext = true;
    await assert.rejects(movesOf(node.pools.get('two')).discard(id), /the disk fails/);
    assert.equal(two()?.state, 'removed');
    await movesOf(node.pools.get('two')).discard(id);
    await isFree(node.pools.get('two'));
  });

  test('is not used from its fence on, also after a restart, and is brought back from the trash with its mark', async () => {
    using scratch = new Scratch('move');
    const disk = new LoopDisk(scratch, 'one');
    const pool = await openLoopDisk(scratch, disk);
    await pool.create(spec);
    await movesOf(pool).close(id, fence);
    await pool.close();
    const again = await openLoopDisk(scratch, disk);
    await assert.rejects(again.attach(id, { persistent: true }), /is moving out of pool test/);
    await assert.rejects(again.remove(id), /is moving out of pool test/);
    await movesOf(again).open(id, moveId);
    await movesOf(again).close(id, fence);
    {
      // It is read, and not in use by that.
      await using _first = await movesOf(again).read(id);
      await using second = await movesOf(again).read(id);
      assert.equal(await second.during(async (path) => digestOf(path)), zeros);
      assert.deepEqual(await again.inUse(id), []);
    }
    await movesOf(again).give(id, fence);
    await movesOf(again).settle(id, { moveId, generation: 1 });
    assert.equal(await movesOf(again).hasLeft(id), true);
    await again.restore(id);
    await assert.rejects(again.attach(id, { persistent: true }), /was handed over by pool test/);
    await movesOf(again).takeBack(id);
    const attached = await again.attach(id, { persistent: true });
    await attached.release();
    await again.detach(attached);
    await again.close();
  });
});
