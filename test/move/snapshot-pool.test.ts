import assert from 'node:assert/strict';
import { cpSync, readdirSync, rmSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { snapshotIdFor } from '../../src/volume/id.ts';
import { type Answer, type Fence, isFenceFor } from '../../src/volume/move/rule.ts';
import { FailingSync } from '../support/failing-sync.ts';
import { type ImageTestOptions, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { arrivalOf, movesOf, openPool } from './two-pools.ts';

const spec = volumeSpec('data', { content: { type: 'block' } });
const id = snapshotIdFor('node', 'first');
const taken = { id, name: 'first', sourceId: spec.id, parameters: {} };

/** A pool on XFS, in a file. */
function open(scratch: Scratch, name: string): Promise<Catalog> {
  const location: ImageTestOptions['location'] = {
    type: 'file',
    path: scratch.join(`${name}.img`),
    sizeBytes: 512n << 20n,
  };
  return openPool(scratch, name, { location });
}

async function withSnapshot(scratch: Scratch): Promise<Catalog> {
  const pool = await open(scratch, 'one');
  await pool.create(spec);
  await pool.takeSnapshots([taken]);
  return pool;
}

/** The snapshot arrives in the other pool, without a byte of it being copied. */
async function arrive(from: Catalog, to: Catalog, { fenceId, moveId }: Fence, answer: Answer): Promise<void> {
  const record = movesOf(from).snapshots.find(id) ?? assert.fail();
  await using incoming = await movesOf(to).snapshots.receive(record, arrivalOf(moveId));
  await incoming.commit({ moveId, readUnder: fenceId }, answer, undefined);
}

const names = async (pool: Catalog) => (await pool.listSnapshots(undefined, undefined)).map(({ name }) => name);
const clone = (pool: Catalog, name: string) =>
  pool.create(volumeSpec(name, { content: { type: 'block' } }), { type: 'snapshot', id });

describe('a snapshot that follows its volume', () => {
  test('that another node has taken back goes only if the copy here is an earlier one of the same snapshot', async () => {
    using scratch = new Scratch('snapshot');
    const one = await withSnapshot(scratch);
    const moves = movesOf(one).snapshots;
    const { createdAt = '' } = moves.find(id) ?? {};
    const later = { createdAt, generation: 1_000_002, node: 'a' };
    await moves.outdate(id, { ...later, generation: 0 });
    await moves.outdate(id, { ...later, createdAt: '2026-01-01T00:00:00.000Z' });
    assert.deepEqual(await names(one), ['first']);
    await moves.outdate(id, later);
    assert.deepEqual(await names(one), []);
    assert.deepEqual(await moves.noted(id), { generation: 1_000_002, at: 'a', node: 'node' });
    // Not there is fine.
    await moves.outdate(id, later);
    await one.close();
  });

  test('is used, and removed, while it is fenced; nothing is handed over of it then, nor of a later one of its name', async () => {
    using scratch = new Scratch('snapshot');
    const one = await withSnapshot(scratch);
    const moves = movesOf(one).snapshots;
    const fence = await moves.close(id, 'two');
    assert.deepEqual(await moves.close(id, 'two'), fence);
    await clone(one, 'fenced');
    assert.deepEqual(await names(one), ['first']);
    await one.removeSnapshot(id);
    await assert.rejects(moves.give(id, fence), { name: 'NotFound' });
    await one.takeSnapshots([taken]);
    await assert.rejects(moves.give(id, fence), /is not handed over/);
    assert.notEqual((await moves.close(id, 'two')).moveId, fence.moveId);
    await one.close();
  });

  test('is handed over to no pool that has read all of it for an earlier order, once it goes to another one', async () => {
    using scratch = new Scratch('snapshot');
    const one = await withSnapshot(scratch);
    const moves = movesOf(one).snapshots;
    const earlier = await moves.close(id, 'two');
    const fence = await moves.close(id, 'three');
    assert.notEqual(fence.moveId, earlier.moveId);
    await assert.rejects(moves.give(id, earlier), /is not handed over/);
    await moves.give(id, fence);
    // It may have arrived there: the fence stands, and is for no other pool.
    const { moveId } = await moves.close(id, 'two');
    assert.equal(moveId, fence.moveId);
    assert.deepEqual(
      [isFenceFor({ ...fence, moveId }, 'three'), isFenceFor({ ...fence, moveId }, 'two')],
      [true, false],
    );
    await one.close();
  });

  test('is neither listed, used nor removed where it was once it was handed over, also after a restart', async () => {
    using scratch = new Scratch('snapshot');
    const one = await withSnapshot(scratch);
    const fence = await movesOf(one).snapshots.close(id, 'two');
    await movesOf(one).snapshots.give(id, fence);
    const requireGone = async (pool: Catalog) => {
      assert.deepEqual([await names(pool), await pool.findSnapshot(id)], [[], undefined]);
      await assert.rejects(clone(pool, 'given'), { name: 'NotFound' });
      await assert.rejects(pool.removeSnapshot(id), { name: 'Unavailable', message: /was handed over by pool one/ });
      await assert.rejects(pool.takeSnapshots([taken]), { name: 'AlreadyExists' });
      await assert.rejects(movesOf(pool).snapshots.open(id), /was handed over by pool one/);
    };
    await requireGone(one);
    await one.close();
    const again = await open(scratch, 'one');
    await requireGone(again);
    // The operator's word, as the other pool is lost.
    await movesOf(again).snapshots.takeBack(id);
    assert.deepEqual(await names(again), ['first']);
    await again.removeSnapshot(id);
    await again.close();
  });

  test('waits where it was once it was handed over to another pool, and not if another node may have it', async () => {
    using scratch = new Scratch('snapshot');
    for (const node of [undefined, 'other']) {
      const name = `to-${node}`;
      const one = await open(scratch, name);
      await one.create(spec);
      await one.takeSnapshots([taken]);
      const listed = async () =>
        (await one.listSnapshots(undefined, undefined, undefined, true)).map((each) => each.isLeft);
      const fence = await movesOf(one).snapshots.close(id, 'two', node);
      assert.deepEqual(await listed(), [undefined]);
      await movesOf(one).snapshots.give(id, fence);
      assert.deepEqual(await listed(), node === undefined ? [true] : []);
      await one.close();
      rmSync(scratch.join('data', 'moved'), { recursive: true });
    }
  });

  test('does not wait there any more once it has gone on to another node, from another pool', async () => {
    using scratch = new Scratch('snapshot');
    const one = await withSnapshot(scratch);
    const two = await open(scratch, 'two');
    const moves = movesOf(one).snapshots;
    const fence = await moves.close(id, 'two');
    await arrive(one, two, fence, await moves.give(id, fence));
    const listed = async (pool: Catalog) =>
      (await pool.listSnapshots(undefined, undefined, undefined, true)).map(({ name }) => name);
    assert.deepEqual([await moves.waits(id), await listed(one)], [true, ['first']]);
    await movesOf(two).snapshots.give(id, await movesOf(two).snapshots.close(id, 'data', 'other'));
    assert.deepEqual([await moves.waits(id), await listed(one), await listed(two)], [false, [], []]);
    await one.close();
    await two.close();
  });

  test('is taken for handed over if it is not known whether the disk has that', async () => {
    using scratch = new Scratch('snapshot');
    const one = await withSnapshot(scratch);
    const fence = await movesOf(one).snapshots.close(id, 'two');
    {
      using _sick = new FailingSync(scratch.join('data', 'moved'));
      await assert.rejects(movesOf(one).snapshots.give(id, fence), /EIO/);
    }
    assert.deepEqual(await names(one), []);
    await one.close();
  });

  test('has not arrived before its arrival is durable, and is listed once after that', async () => {
    using scratch = new Scratch('snapshot');
    const [one, two] = [await withSnapshot(scratch), await open(scratch, 'two')];
    const fence = await movesOf(one).snapshots.close(id, 'two');
    const answer = await movesOf(one).snapshots.give(id, fence);
    {
      // The commit, and each look at its outcome.
      using _sick = new FailingSync(scratch.join('data/pools/two/snapshots'), Number.POSITIVE_INFINITY);
      await assert.rejects(arrive(one, two, fence, answer), /EIO/);
      await assert.rejects(movesOf(two).snapshots.settled(id), /EIO/);
      await assert.rejects(movesOf(two).snapshots.stateOf(id), /EIO/);
    }
    assert.equal((await movesOf(two).snapshots.settled(id))?.id, id);
    assert.deepEqual((await movesOf(two).snapshots.stateOf(id)).mark, { generation: 1 });
    assert.deepEqual([await names(one), await names(two)], [[], ['first']]);
    await one.close();
    await two.close();
  });

  test('is one of a later generation in its new pool, and an old copy where a disk is back as it was before', async () => {
    using scratch = new Scratch('snapshot');
    const [one, two] = [await withSnapshot(scratch), await open(scratch, 'two')];
    await one.close();
    cpSync(scratch.join('one.img'), scratch.join('before.img'));
    const opened = await open(scratch, 'one');
    const fence = await movesOf(opened).snapshots.close(id, 'two');
    await arrive(opened, two, fence, await movesOf(opened).snapshots.give(id, fence));
    assert.equal(await movesOf(opened).snapshots.settle(id, 0), false);
    assert.equal(await movesOf(opened).snapshots.settle(id, 1), true);
    assert.equal(movesOf(opened).snapshots.find(id), undefined);
    assert.deepEqual((await movesOf(two).snapshots.stateOf(id)).mark, { generation: 1 });
    // Whichever pool is not open: its name is not given to another one.
    await assert.rejects(opened.takeSnapshots([taken]), /is in a pool of this node that is not open/);
    await opened.close();
    rmSync(scratch.join('one.img'));
    cpSync(scratch.join('before.img'), scratch.join('one.img'));
    const before = await open(scratch, 'one');
    assert.deepEqual(await names(before), []);
    await movesOf(before).snapshots.removeLeft(id);
    await two.removeSnapshot(id);
    await before.takeSnapshots([taken]);
    assert.deepEqual(await names(before), ['first']);
    await Promise.all([before.close(), two.close()]);
  });

  test('arrives once, and only under the fence that it was read under', async () => {
    using scratch = new Scratch('snapshot');
    const [one, two] = [await withSnapshot(scratch), await open(scratch, 'two')];
    const moves = movesOf(one).snapshots;
    const record = moves.find(id) ?? assert.fail();
    const fence = await moves.close(id, 'two');
    const { fenceId, moveId } = fence;
    const answer = await moves.give(id, fence);
    {
      await using incoming = await movesOf(two).snapshots.receive(record, arrivalOf(moveId));
      for (const readUnder of [undefined, 'another']) {
        await assert.rejects(incoming.commit({ moveId, readUnder }, answer, undefined), /does not arrive in pool two/);
      }
      await incoming.note('some');
    }
    {
      await using incoming = await movesOf(two).snapshots.receive(record, arrivalOf(moveId));
      assert.deepEqual([incoming.isNew, incoming.noted], [false, 'some']);
    }
    await arrive(one, two, { ...fence, fenceId, isGiven: true }, answer);
    assert.deepEqual([await names(one), await names(two)], [[], ['first']]);
    assert.throws(() => movesOf(two).snapshots.requireRoomFor(record), { name: 'AlreadyExists' });
    await moves.settle(id, 1);
    await Promise.all([one.close(), two.close()]);
  });

  test('does not go to a pool of copies, and leaves nothing where it is given up', async () => {
    using scratch = new Scratch('snapshot');
    const [one, two] = [await withSnapshot(scratch), await open(scratch, 'two')];
    const record = movesOf(one).snapshots.find(id) ?? assert.fail();
    {
      await using incoming = await movesOf(two).snapshots.receive(record, arrivalOf('some'));
      await incoming.note('{}');
    }
    assert.deepEqual(await movesOf(two).snapshots.arriving(), [id]);
    await movesOf(two).snapshots.discard(id);
    assert.deepEqual(await movesOf(two).snapshots.arriving(), []);
    await two.close();
    const again = await open(scratch, 'two');
    assert.deepEqual(await names(again), []);
    const plain = await openPool(scratch, 'plain');
    if (plain.traits.snapshots === 'copy') {
      assert.throws(() => movesOf(plain).snapshots.requireRoomFor(record), /blocks cannot be shared there/);
      assert.deepEqual(readdirSync(scratch.join('plain', 'snapshots')), []);
    }
    await Promise.all([one.close(), again.close(), plain.close()]);
  });
});
