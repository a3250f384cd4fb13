import assert from 'node:assert/strict';
import { cpSync, rmSync } from 'node:fs';
import { describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { deviceOf, digestIn, written } from './devices.ts';
import { Broker, blockSpec, introduce, MovingNode, type MovingNodeOptions, order } from './two-nodes.ts';
import { isWhole, movesOf, refuseVolumes } from './two-pools.ts';

const { id } = blockSpec;

/** Nodes with pools in directories, whose disks can be put back. */
class PutBack implements Disposable {
  readonly #scratch = new Scratch('target');
  readonly #broker = new Broker();

  open(name: string, options: MovingNodeOptions = {}): Promise<MovingNode> {
    return MovingNode.open(this.#scratch, this.#broker, name, options);
  }

  /** Keeps the disk of a stopped node as it is now. */
  save(name: string): void {
    cpSync(this.#scratch.join(name), this.#scratch.join(`${name}-saved`), { recursive: true });
  }

  putBack(name: string): void {
    rmSync(this.#scratch.join(name), { recursive: true });
    cpSync(this.#scratch.join(`${name}-saved`), this.#scratch.join(name), { recursive: true });
  }

  [Symbol.dispose](): void {
    this.#scratch[Symbol.dispose]();
  }
}

const twoPools = { poolNames: ['data', 'other'] } as const;

describe('the disk of the pool that a volume goes to comes back with an earlier copy of it', () => {
  test('within a node, after the hand-over: the move fails, nothing is finished, and a cancel with a second word makes the latest copy the volume', async () => {
    using disks = new PutBack();
    {
      await using node = await disks.open('a', twoPools);
      await node.pool.create(blockSpec);
      await written(node, id);
    }
    disks.save('a');
    let latest: string;
    {
      await using node = await disks.open('a', twoPools);
      await node.mover.start(id, 'other', undefined);
      assert.equal((await node.ended(id)).job.state, 'done');
      const { pool } = await node.pools.require(id);
      assert.equal(pool.name, 'other');
      latest = await written(node, id);
      refuseVolumes(node.pool);
      await node.mover.start(id, 'data', undefined);
      await eventually(async () => assert.equal((await movesOf(pool).stateOf(id)).why, 'given'));
      assert.ok(await isWhole(node.pool, id));
    }
    disks.putBack('a');
    await using node = await disks.open('a', twoPools);
    const { job } = await node.ended(id);
    assert.equal(job.state, 'failed');
    assert.match(job.reason ?? '', /has no copy of it any more.*holdfast move cancel/);
    await assert.rejects(node.mover.finish(id, { lostPool: 'other' }), /pool other has its copy, and is not lost/);
    await assert.rejects(node.mover.cancel(id), /may have come to pool data, and been used there/);
    assert.equal((await node.mover.cancel(id, undefined, undefined, true)).state, 'cancelled');
    const { pool } = await node.pools.require(id);
    assert.equal(pool.name, 'other');
    assert.equal(await digestIn(node, id), latest);
  });

  test('within a node, before the hand-over: it goes to the trash, and the volume arrives', async () => {
    using disks = new PutBack();
    {
      await using node = await disks.open('a', twoPools);
      await node.pool.create(blockSpec);
      await written(node, id);
    }
    disks.save('a');
    let latest: string;
    {
      await using node = await disks.open('a', twoPools);
      await node.mover.start(id, 'other', undefined);
      assert.equal((await node.ended(id)).job.state, 'done');
      latest = await written(node, id);
      await using _shown = await deviceOf(node, id);
      await node.mover.start(id, 'data', undefined);
      await eventually(() => assert.equal(node.sight(id).progress?.phase, 'waiting'));
    }
    disks.putBack('a');
    await using node = await disks.open('a', twoPools);
    assert.deepEqual([(await node.ended(id)).job.state, node.sight(id).job.reason], ['done', undefined]);
    assert.equal((await node.pools.require(id)).pool.name, 'data');
    assert.equal(await digestIn(node, id), latest);
  });

  test('between nodes, after the hand-over: the move fails, and a cancel makes the latest copy the volume', async () => {
    using disks = new PutBack();
    {
      await using b = await disks.open('b');
      await b.pool.create(blockSpec);
      await written(b, id);
    }
    disks.save('b');
    let latest: string;
    let moveId: string;
    {
      await using a = await disks.open('a');
      await using b = await disks.open('b');
      await order(b, a, id);
      assert.equal((await a.ended(id)).job.state, 'done');
      latest = await written(a, id);
      await eventually(async () => assert.equal(await b.pool.find(id), undefined));
      refuseVolumes(b.pool);
      moveId = await order(a, b, id);
      await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given'));
      assert.ok(await isWhole(b.pool, id));
    }
    disks.putBack('b');
    await using a = await disks.open('a');
    await using b = await disks.open('b');
    await introduce(a, b, { id, moveId });
    const { job } = await b.ended(id);
    assert.equal(job.state, 'failed');
    assert.match(job.reason ?? '', /has no copy of it any more.*kubectl holdfast move cancel/);
    await assert.rejects(b.mover.finish(id, { lostNode: 'a' }), /has not come to pool data as a whole/);
    assert.equal((await b.mover.cancel(id)).state, 'cancelled');
    assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined);
    assert.equal(await digestIn(a, id), latest);
    assert.equal(await b.pool.find(id), undefined);
  });
});
