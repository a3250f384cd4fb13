import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import type { PoolMoves } from '../../src/pool/moves.ts';
import { snapshotIdFor, volumeIdFor } from '../../src/volume/id.ts';
import type { Answer } from '../../src/volume/move/rule.ts';
import { FailingSync } from '../support/failing-sync.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { movesOf, openPool } from './two-pools.ts';

const moveId = 'move-1';
const fence = { moveId, fenceId: 'fence-1' };
const spec = volumeSpec('data', { content: { type: 'block' } });
const { id } = spec;

/** Every use and change of a volume. */
function uses(pool: Catalog): (() => Promise<unknown>)[] {
  return [
    () => pool.attach(id, { persistent: false }),
    () => pool.grow(id, 128n << 20n),
    () => pool.modify(id, { undeleteSeconds: 5 }),
    () => pool.setPublication(id, undefined),
    () => pool.remove(id),
    () => pool.repair(id, 'ext4'),
    () => pool.release(id, '/var/tmp/nowhere'),
  ];
}

async function requireRefused(pool: Catalog, words: RegExp): Promise<void> {
  for (const use of uses(pool)) await assert.rejects(use, { name: 'FailedPrecondition', message: words });
}

/** The volume arrives in the other pool, without a byte of it being copied. */
async function arrive(moves: PoolMoves, pool: Catalog, answer: Answer): Promise<void> {
  const record = await movesOf(pool).recordFor(spec as never);
  await using incoming = await moves.receive(record, moveId);
  await incoming.commit(record, { mark: { moveId, readUnder: fence.fenceId }, answer, from: undefined });
}

describe('a volume that moves', () => {
  test('is not used from its fence on, also after a restart, until that is opened', async () => {
    using scratch = new Scratch('move');
    const pool = await openPool(scratch, 'one');
    await pool.create(spec);
    await movesOf(pool).close(id, fence);
    await requireRefused(pool, /is moving out of pool one, and cannot be used until that has ended/);
    await pool.close();

    const again = await openPool(scratch, 'one');
    await requireRefused(again, /is moving out of pool one/);
    await assert.rejects(movesOf(again).open(id, 'move-2'), { name: 'FailedPrecondition' });
    await movesOf(again).open(id, moveId);
    await using device = await again.attach(id, { persistent: false }).then((found) => ({
      ...found,
      [Symbol.asyncDispose]: () => found.release(),
    }));
    assert.equal(device.kind, 'device');
    await assert.rejects(movesOf(again).close(id, fence), /in use/);
    await device.release();
    await again.close();
  });

  test('is cloned, and has snapshots taken of it, while it is fenced, and not when it was handed over', async () => {
    using scratch = new Scratch('move');
    const pool = await openPool(scratch, 'one');
    await pool.create(spec);
    const snapshot = (name: string) =>
      pool.takeSnapshots([{ id: snapshotIdFor('node', name), name, sourceId: id, parameters: {} }]);
    const clone = (name: string) =>
      pool.create(volumeSpec(name, { content: { type: 'block' } }), { type: 'volume', id });
    await movesOf(pool).close(id, fence);
    await snapshot('fenced');
    await clone('fenced');
    await movesOf(pool).give(id, fence);
    await assert.rejects(snapshot('given'), /was handed over by pool one/);
    await assert.rejects(clone('given'), /was handed over by pool one/);
    await pool.close();
  });

  test('is taken for handed over if it is not known whether the disk has that', async () => {
    using scratch = new Scratch('move');
    const pool = await openPool(scratch, 'one');
    await pool.create(spec);
    const moves = movesOf(pool);
    await moves.close(id, fence);
    {
      using _sick = new FailingSync(scratch.join('data', 'moved'));
      await assert.rejects(moves.give(id, fence), /EIO/);
    }
    await assert.rejects(moves.open(id, moveId), /was handed over by pool one/);
    await requireRefused(pool, /was handed over by pool one/);
    // The move goes on.
    assert.deepEqual(await moves.give(id, fence), { ...fence, generation: 1 });
    await pool.close();
  });

  test('from another node is noted before its commit, by which a disk may have it, and after it, as it is here', async () => {
    using scratch = new Scratch('move');
    const pool = await openPool(scratch, 'one');
    const moves = movesOf(pool);
    const record = await moves.recordFor(spec as never);
    const answer = { ...fence, generation: 3 };
    {
      await using incoming = await moves.receive(record, moveId);
      const commit = () => incoming.commit(record, { mark: { moveId, readUnder: fence.fenceId }, answer, from: 'b' });
      {
        const [draft = assert.fail('no draft')] = readdirSync(scratch.join('one', 'tmp'));
        using _sick = new FailingSync(scratch.join('one', 'tmp', draft));
        await assert.rejects(commit(), /EIO/);
      }
      assert.equal(await pool.find(id), undefined);
      assert.deepEqual(await moves.noted(id), { generation: 3, at: 'b', node: 'node' });
      await commit();
    }
    assert.deepEqual(await moves.noted(id), { generation: 3, node: 'node' });
    await moves.noteArrival(id);
    assert.deepEqual(await moves.noted(id), { generation: 3, node: 'node' });
    await pool.close();
  });

  test('is noted durably before its commit, and as here by its next try if that failed after it; no later note is replaced', async () => {
    using scratch = new Scratch('move');
    const pool = await openPool(scratch, 'one');
    const moves = movesOf(pool);
    const record = await moves.recordFor(spec as never);
    {
      await using incoming = await moves.receive(record, moveId);
      const answer = { ...fence, generation: 3 };
      const failed = async (times: number, worked: number) => {
        using _sick = new FailingSync(scratch.join('data', 'moved'), times, worked);
        for (let n = 0; n < times; n++) {
          const commit = incoming.commit(record, { mark: { moveId, readUnder: fence.fenceId }, answer, from: 'b' });
          await assert.rejects(commit, /EIO/);
        }
      };
      // The first note may not be on the disk: it is written again.
      await failed(2, 0);
      assert.equal(await pool.find(id), undefined);
      await failed(1, 1);
    }
    assert.deepEqual((await moves.stateOf(id)).mark, { generation: 3 });
    await moves.noteArrival(id);
    assert.deepEqual(await moves.noted(id), { generation: 3, node: 'node' });
    await moves.close(id, { ...fence, to: 'c' });
    await moves.give(id, fence);
    await moves.noteArrival(id);
    assert.deepEqual(await moves.noted(id), { generation: 4, at: 'c', node: 'node' });
    await pool.close();
  });

  test('is handed over to the one that read it under its fence, and never opened again', async () => {
    using scratch = new Scratch('move');
    const pool = await openPool(scratch, 'one');
    await pool.create(spec);
    const moves = movesOf(pool);
    await moves.close(id, fence);
    await assert.rejects(moves.give(id, { moveId, fenceId: 'fence-0' }), /is not handed over/);
    assert.deepEqual(await moves.give(id, fence), { ...fence, generation: 1 });
    // The answer was missed.
    assert.deepEqual(await moves.give(id, fence), { ...fence, generation: 1 });
    await assert.rejects(moves.open(id, moveId), /was handed over by pool one/);
    await requireRefused(pool, /was handed over by pool one/);
    await pool.close();
    const again = await openPool(scratch, 'one');
    await requireRefused(again, /was handed over by pool one/);
    await again.close();
  });

  test('is of a new generation in its new pool; the one that it left keeps it in the trash for a week', async () => {
    using scratch = new Scratch('move');
    const [one, two] = [await openPool(scratch, 'one', { undeleteSeconds: 0 }), await openPool(scratch, 'two')];
    await one.create(spec);
    await movesOf(one).close(id, fence);
    await arrive(movesOf(two), two, await movesOf(one).give(id, fence));
    await requireRefused(one, /was handed over/);
    assert.deepEqual((await movesOf(two).stateOf(id)).mark, { generation: 1 });
    await movesOf(one).settle(id, { moveId, generation: 0 });
    assert.notEqual(await one.find(id), undefined);
    await movesOf(one).settle(id, { moveId, generation: 1 });
    assert.equal(await one.find(id), undefined);
    const [trashed] = await one.trash();
    assert.equal(Date.parse(trashed?.purgeAt ?? '') - Date.parse(trashed?.deletedAt ?? ''), 7 * 86_400_000);
    // Its name is not given to another volume, whichever pool is not open.
    await assert.rejects(one.create(spec), /is in a pool of this node that is not open/);
    await two.grow(id, 128n << 20n);
    assert.deepEqual((await movesOf(two).stateOf(id)).mark, { generation: 1 });
    await two.remove(id);
    await one.create(spec);
    await one.close();
    await two.close();
  });

  test('is an old copy where a disk is back as it was before the move', async () => {
    using scratch = new Scratch('move');
    const one = await openPool(scratch, 'one');
    await one.create(spec);
    await movesOf(one).close(id, fence);
    await movesOf(one).give(id, fence);
    await one.close();
    rmSync(scratch.join('one', 'volumes', id, 'move.json'));
    const again = await openPool(scratch, 'one');
    await requireRefused(again, /this copy must not be used: see docs\/move.md/);
    await movesOf(again).takeBack(id);
    assert.deepEqual(await movesOf(again).stateOf(id), { mark: { generation: 2 }, why: undefined });
    await again.close();
  });

  test('was taken back elsewhere while its node was lost: an earlier copy is used no more, and goes to the trash', async () => {
    using scratch = new Scratch('move');
    const pool = await openPool(scratch, 'one');
    await pool.create(spec);
    const moves = movesOf(pool);
    const by = { generation: 2, node: 'b', at: later() };
    {
      const device = await pool.attach(id, { persistent: true });
      await device.release();
      await assert.rejects(moves.outdate(id, by), { name: 'FailedPrecondition', message: /is in use/ });
      await pool.detach(device);
    }
    await requireRefused(pool, /this copy must not be used: see docs\/move.md/);
    assert.equal(await moves.outdate(id, by), true);
    assert.equal(await pool.find(id), undefined);
    const [trashed] = await pool.trash();
    assert.equal(trashed?.record.id, id);
    assert.equal(await moves.whereElse(id), 'b');
    // Said again, and late.
    for (const each of [by, { ...by, generation: 1, node: 'c' }]) assert.equal(await moves.outdate(id, each), false);
    assert.equal(await moves.whereElse(id), 'b');
    await pool.close();
  });

  test('does not go to the trash before it is noted durably which node has taken the volume back', async () => {
    using scratch = new Scratch('move');
    const pool = await openPool(scratch, 'one');
    await pool.create(spec);
    const moves = movesOf(pool);
    const by = { generation: 2, node: 'b', at: later() };
    {
      using sick = new FailingSync(scratch.join('data', 'moved'), 2);
      await assert.rejects(moves.outdate(id, by), /EIO/);
      // The same order again: the note of the first try may be in memory alone.
      await assert.rejects(moves.outdate(id, by), /EIO/);
      assert.ok(sick.isUsedUp);
    }
    assert.notEqual(await pool.find(id), undefined);
    assert.equal(await moves.outdate(id, by), true);
    assert.equal(await pool.find(id), undefined);
    await pool.close();
  });

  test('is not restored from the trash before its generation is noted durably', async () => {
    using scratch = new Scratch('move');
    const pool = await openPool(scratch, 'one');
    await pool.create({ ...spec, undeleteSeconds: 3600 });
    const moves = movesOf(pool);
    await moves.close(id, fence);
    await moves.give(id, fence);
    await moves.takeBack(id);
    await pool.remove(id);
    assert.equal((await moves.noted(id)).generation, 0);
    {
      using sick = new FailingSync(scratch.join('data', 'moved'), 2);
      for (let tries = 0; tries < 2; tries++) await assert.rejects(pool.restore(id), /EIO/);
      assert.ok(sick.isUsedUp);
    }
    await pool.restore(id);
    assert.deepEqual(await moves.noted(id), { generation: 2, node: 'node' });
    await pool.close();
  });

  test('that is deleted keeps its note until it is gone: an older copy is used at no time', async () => {
    using scratch = new Scratch('move');
    const pool = await openPool(scratch, 'one');
    await pool.create(spec);
    const moves = movesOf(pool);
    await moves.close(id, fence);
    await moves.give(id, fence);
    await moves.takeBack(id);
    {
      using _sick = new FailingSync(scratch.join('one', 'volumes'));
      await assert.rejects(pool.remove(id), /EIO/);
    }
    assert.equal((await moves.noted(id)).generation, 2);
    await pool.remove(id);
    await pool.close();
  });

  test('was taken back by a node whose clock is behind: the copy is known by the time at which the volume was made', async () => {
    using scratch = new Scratch('move');
    const pool = await openPool(scratch, 'one');
    const { createdAt } = await pool.create(spec);
    const by = { generation: 2, node: 'b', at: '2026-01-01T00:00:00Z', createdAt };
    assert.equal(await movesOf(pool).outdate(id, by), true);
    await pool.close();
  });

  test('has come back since, or is another one of that name: word of an earlier generation changes nothing', async () => {
    using scratch = new Scratch('move');
    const pool = await openPool(scratch, 'one');
    await pool.create(spec);
    const moves = movesOf(pool);
    assert.equal(await moves.outdate(id, { generation: 9, node: 'b', at: '2026-01-01T00:00:00Z' }), false);
    const other = { generation: 9, node: 'b', at: later(), createdAt: '2026-01-01T00:00:00.000Z' };
    assert.equal(await moves.outdate(id, other), false);
    assert.deepEqual(await moves.stateOf(id), { mark: { generation: 0 }, why: undefined });
    await moves.close(id, { ...fence, to: 'b' });
    await moves.give(id, fence);
    await assert.rejects(moves.takeBack(id, { lostNode: 'c' }), /was handed over by pool one, and may be on node b/);
    await moves.takeBack(id, { lostNode: 'b' });
    const { mark } = await moves.stateOf(id);
    for (const generation of [1, mark.generation]) {
      assert.equal(await moves.outdate(id, { generation, node: 'b', at: later() }), false);
    }
    assert.deepEqual(await moves.stateOf(id), { mark, why: undefined });
    await pool.close();
  });

  test('is not used if its mark, or the note of its node, cannot be read', async () => {
    using scratch = new Scratch('move');
    const maker = await openPool(scratch, 'one');
    await maker.create(spec);
    await maker.close();
    // A driver that has made a volume knows that it has no mark.
    const pool = await openPool(scratch, 'one');
    const mark = scratch.join('one', 'volumes', id, 'move.json');
    writeFileSync(mark, '{"generation":0');
    await assert.rejects(pool.attach(id, { persistent: false }), { name: 'DataLoss' });
    writeFileSync(mark, '{"format":2,"generation":0}');
    await assert.rejects(pool.attach(id, { persistent: false }), { name: 'DataLoss' });
    rmSync(mark);
    await movesOf(pool).close(id, fence);
    await movesOf(pool).give(id, fence);
    rmSync(mark);
    const note = scratch.join('data', 'moved', `${id}.json`);
    assert.deepEqual(JSON.parse(readFileSync(note, 'utf8')), { format: 1, generation: 1 });
    await pool.close();
    writeFileSync(note, '');
    const again = await openPool(scratch, 'one');
    await assert.rejects(again.attach(id, { persistent: false }), { name: 'DataLoss' });
    // Another pool of the node is none the worse.
    const other = await openPool(scratch, 'two');
    await other.close();
    await again.close();
  });

  test('leaves nothing of a draft that is given up, and resumes one that is not', async () => {
    using scratch = new Scratch('move');
    const pool = await openPool(scratch, 'two');
    const record = await movesOf(pool).recordFor(await recordIn(scratch));
    {
      await using incoming = await movesOf(pool).receive(record, moveId);
      assert.equal(incoming.isNew, true);
      await incoming.note(`${moveId}\nhalf`);
    }
    await pool.close();
    const again = await openPool(scratch, 'two');
    assert.equal(await again.find(id), undefined);
    {
      await using incoming = await movesOf(again).receive(record, moveId);
      assert.deepEqual([incoming.isNew, incoming.noted], [false, `${moveId}\nhalf`]);
    }
    {
      // Another move has nothing of it.
      await using incoming = await movesOf(again).receive(record, 'move-2');
      assert.deepEqual([incoming.isNew, incoming.noted], [true, undefined]);
    }
    await movesOf(again).discard(id);
    assert.deepEqual(readdirSync(scratch.join('two', 'tmp')), []);
    await again.close();
  });
});

/** A time after all that the test has made. */
function later(): string {
  return new Date(Date.now() + 1_000).toISOString();
}

async function recordIn(scratch: Scratch) {
  const pool = await openPool(scratch, 'one');
  const record = await pool.create({ ...spec, id: volumeIdFor('node', 'test', 'data') });
  await pool.close();
  return record;
}
