import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, mock, test } from 'node:test';
import { writeAt } from '../../src/kernel/file/file.ts';
import { PoolHeld } from '../../src/move/snapshots/held.ts';
import { SnapshotSpace } from '../../src/move/snapshots/snapshot-space.ts';
import { SnapshotMoves } from '../../src/pool/catalog/snapshot-moves.ts';
import type { IncomingSnapshot } from '../../src/pool/moves.ts';
import type { Pool } from '../../src/pool/pool.ts';
import { Unavailable } from '../../src/volume/errors.ts';
import type { SnapshotRecord } from '../../src/volume/snapshot-record.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf, write } from './devices.ts';
import { id, idOf, mib, Node, sized, spec, withSnapshots } from './following-node.ts';
import { arrivalOf, movesOf } from './two-pools.ts';

const availableBytes = async (pool: Pool) => (await pool.capacity()).availableBytes;

/** The volume in pool two, and three snapshots of it in pool one. */
async function apart(node: Node): Promise<void> {
  await withSnapshots(node);
  await node.mover.start(id, 'two', undefined);
  await eventually(() => assert.equal(node.sight().job.state, 'done'));
}

/** The same beside 80 MiB that the volume owns, and no snapshot has. @returns the one before the newest */
async function besideOwnBlocks(node: Node): Promise<SnapshotRecord> {
  await apart(node);
  await node.snapshot('later', randomBytes(4096), 0n);
  await using shown = await deviceOf(node, id);
  write(shown.devicePath, randomBytes(80 << 20), 0n);
  return movesOf(node.pools.get('one')).snapshots.find(idOf('young')) ?? assert.fail();
}

/** Differs by less than the filesystem's own figures do. */
function assertNear(actual: bigint, expected: bigint): void {
  const difference = actual - expected;
  assert.ok(difference < 2n * mib && difference > -2n * mib, `${actual} is not ${expected}`);
}

/** Writes a part of a copy, as the mover does. */
async function writePart(pool: Pool, incoming: IncomingSnapshot, bytes: Buffer): Promise<void> {
  await writeAt(pool.queue, incoming.data, bytes, 0n);
  incoming.wrote({ offsetBytes: 0n, lengthBytes: BigInt(bytes.length) });
}

describe('the space of a snapshot that follows its volume', () => {
  test('is held once: what is written of it is held no longer, also after the copy was cut short', async () => {
    using scratch = new Scratch('space');
    await using node = await Node.open(scratch);
    await apart(node);
    const two = node.pools.get('two');
    const record = movesOf(node.pools.get('one')).snapshots.find(idOf('young')) ?? assert.fail();
    const arrival = arrivalOf('some', { newBytes: 40n * mib });
    let held = 0n;
    {
      await using incoming = await movesOf(two).snapshots.receive(record, arrival);
      held = await availableBytes(two);
      await writePart(two, incoming, randomBytes(24 << 20));
      assertNear(await availableBytes(two), held);
      await incoming.note('some');
    }
    {
      await using _incoming = await movesOf(two).snapshots.receive(record, arrival);
      assertNear(await availableBytes(two), held);
    }
  });

  test('is held once while it is copied', async () => {
    using scratch = new Scratch('space');
    await using node = await Node.open(scratch);
    await apart(node);
    {
      // So nothing that the copy begins with is right.
      await using shown = await deviceOf(node, id);
      write(shown.devicePath, randomBytes(60 << 20), 0n);
    }
    const two = node.pools.get('two');
    const copied = (bytes: bigint) =>
      eventually(() => assert.ok((node.sight().snapshots?.progress?.doneBytes ?? 0n) >= bytes));
    await node.mover.start(id, 'two', 12n * mib, true);
    await copied(mib);
    const before = await availableBytes(two);
    await copied(30n * mib);
    assert.ok((await availableBytes(two)) > before - 8n * mib);
  });

  test('is not asked for again once it was handed over: the pool may be full by then', async () => {
    using scratch = new Scratch('space');
    await using node = await Node.open(scratch);
    await apart(node);
    const two = node.pools.get('two');
    const record = movesOf(node.pools.get('one')).snapshots.find(idOf('young')) ?? assert.fail();
    const { moveId } = await movesOf(node.pools.get('one')).snapshots.close(record.id, 'two');
    {
      await using incoming = await movesOf(two).snapshots.receive(record, arrivalOf(moveId));
      await incoming.note('whole');
    }
    {
      // The copy shares nothing of this with the volume.
      await using shown = await deviceOf(node, id);
      write(shown.devicePath, randomBytes(80 << 20), 0n);
    }
    await two.create(volumeSpec('other', { content: { type: 'block' }, sizeBytes: await availableBytes(two) }));
    const newBytes = 8n * mib;
    const { snapshots } = movesOf(two);
    await assert.rejects(snapshots.receive(record, arrivalOf(moveId, { newBytes })), { name: 'ResourceExhausted' });
    await using incoming = await snapshots.receive(record, arrivalOf(moveId, { newBytes, isGiven: true }));
    assert.equal(incoming.noted, 'whole');
  });

  test('has none of the volume in it where it begins as a clone of another snapshot', async () => {
    using scratch = new Scratch('space');
    await using node = await Node.open(scratch);
    const record = await besideOwnBlocks(node);
    const two = node.pools.get('two');
    const before = await availableBytes(two);
    await using _incoming = await movesOf(two).snapshots.receive(record, arrivalOf('some', { newBytes: mib }));
    assertNear(await availableBytes(two), before - mib);
  });

  test('has none of the volume in it where it goes on as a clone of another snapshot', async () => {
    using scratch = new Scratch('space');
    await using node = await Node.open(scratch);
    const record = await besideOwnBlocks(node);
    const two = node.pools.get('two');
    const { snapshots } = movesOf(two);
    const arrival = arrivalOf('some', { newBytes: mib });
    {
      await using incoming = await snapshots.receive(record, arrival);
      await incoming.note('some');
    }
    // The volume would have to be written again, if the copy had its blocks.
    const spare = (await availableBytes(two)) - 8n * mib;
    await two.create(volumeSpec('other', { content: { type: 'block' }, sizeBytes: spare, provisioning: 'thick' }));
    await using incoming = await snapshots.receive(record, arrival);
    assert.equal(incoming.noted, 'some');
  });

  test('is counted once: after a restart, those that have moved are known', async () => {
    using scratch = new Scratch('space');
    {
      await using node = await Node.open(scratch);
      await apart(node);
      const target = movesOf(node.pools.get('two')).snapshots;
      const receive = target.receive.bind(target);
      mock.method(target, 'receive', async (...args: Parameters<typeof receive>) => {
        if (args[0].name === 'middle') throw new Unavailable('pool two does not answer.');
        return receive(...args);
      });
      await node.mover.start(id, 'two', undefined, true);
      await eventually(() => assert.equal(node.sight().snapshots?.trouble, 'pool two does not answer.'));
    }
    const asked = new Map<string, bigint>();
    const receive = SnapshotMoves.prototype.receive;
    const spy = mock.method(
      SnapshotMoves.prototype,
      'receive',
      function (this: SnapshotMoves, ...args: Parameters<typeof receive>) {
        asked.set(args[0].name, args[1].newBytes);
        return receive.apply(this, args);
      },
    );
    await using again = await Node.open(scratch);
    await again.ended();
    spy.mock.restore();
    assert.deepEqual(Object.fromEntries(asked), { middle: 2n * mib, old: mib });
  });

  test('has the blocks of a later snapshot in it that was deleted meanwhile', async () => {
    using scratch = new Scratch('space');
    await using node = await Node.open(scratch);
    await apart(node);
    const target = movesOf(node.pools.get('two')).snapshots;
    const receive = target.receive.bind(target);
    const asked = new Map<string, bigint>();
    mock.method(target, 'receive', async (...args: Parameters<typeof receive>) => {
      asked.set(args[0].name, args[1].newBytes);
      if (args[0].name === 'young') await node.remove(idOf('middle'));
      return receive(...args);
    });
    await node.mover.start(id, 'two', undefined, true);
    await node.ended();
    // Those that old has and middle has not, and those that middle has and young has not.
    assert.deepEqual(Object.fromEntries(asked), { young: 42n * mib, old: mib + 2n * mib });
  });

  test('is counted in the units of the pool that it goes to', async () => {
    using scratch = new Scratch('space');
    await using node = await Node.open(scratch, [sized('one')]);
    const one = node.pools.get('one');
    await one.create(spec);
    await node.snapshot('old', randomBytes(8 << 20), 0n);
    for (let at = 0n; at < 8n; at++) await node.snapshot(`later ${at}`, randomBytes(4096), at * mib + 60n * 1024n);
    const held = ['later 7', 'old'].map(
      (name) => new PoolHeld(one, movesOf(one).snapshots.find(idOf(name)) ?? assert.fail()),
    );
    for (const [unitBytes, own] of [
      [4096n, 8n * 4096n],
      [65_536n, 8n * 65_536n],
    ] as const) {
      assert.equal((await SnapshotSpace.count(held, unitBytes)).totalBytes, 8n * mib + own);
    }
  });
});
