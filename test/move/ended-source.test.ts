import assert from 'node:assert/strict';
import { cpSync, rmSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { adminService } from '../../src/admin/service.ts';
import { FailedPrecondition } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { Broker, blockSpec, filled, introduce, MovingNode, order } from './two-nodes.ts';
import { isWhole, movesOf, refuseVolumes } from './two-pools.ts';

const { id } = blockSpec;

/** All of a volume has come from node a to node b, which commits nothing. Node a is stopped then. */
class Handed implements Disposable {
  readonly #scratch = new Scratch('ended');
  readonly #broker = new Broker();
  moveId = '';

  static async over(): Promise<Handed> {
    const handed = new Handed();
    const saved = handed.#scratch.join('saved');
    {
      await using a = await handed.open('a');
      await filled(a, undefined, { ...blockSpec, undeleteSeconds: 3600 });
    }
    cpSync(handed.#path, saved, { recursive: true });
    await using a = await handed.open('a');
    await using b = await handed.open('b');
    refuseVolumes(b.pool);
    handed.moveId = await order(a, b, id);
    await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given'));
    assert.ok(await isWhole(b.pool, id));
    return handed;
  }

  open(name: string): Promise<MovingNode> {
    return MovingNode.open(this.#scratch, this.#broker, name);
  }

  /** Another disk is in the place of the one that node a had. */
  loseDisk(): void {
    rmSync(this.#path, { recursive: true });
    rmSync(this.#scratch.join('data-a', 'pools', 'data.id'), { force: true });
  }

  /** The disk of node a is as it was before the move. */
  putDiskBack(): void {
    rmSync(this.#path, { recursive: true });
    cpSync(this.#scratch.join('saved'), this.#path, { recursive: true });
  }

  get #path(): string {
    return this.#scratch.join('a');
  }

  [Symbol.dispose](): void {
    this.#scratch[Symbol.dispose]();
  }
}

async function failed(a: MovingNode, b: MovingNode, moveId: string): Promise<void> {
  await introduce(a, b, { id, moveId });
  await eventually(() => assert.equal(b.sight(id).job.state, 'failed'));
}

describe('all of a volume has come to node b, and node a says that the move has ended', () => {
  for (const [what, change] of [
    ['has another disk', (handed: Handed) => handed.loseDisk()],
    ['has its disk as it was before', (handed: Handed) => handed.putDiskBack()],
  ] as const) {
    test(`node a ${what}: it does not cancel the move, and node b keeps the copy`, async () => {
      using handed = await Handed.over();
      change(handed);
      await using a = await handed.open('a');
      await assert.rejects(a.mover.cancel(id), (error) => {
        assert.ok(error instanceof FailedPrecondition);
        assert.match(error.message, /may be on node b, and be the last copy.*kubectl holdfast move cancel .* --node b/);
        return true;
      });
      await using b = await handed.open('b');
      // As an operator says that the copy here does not count, or an earlier driver has noted it.
      await a.leavings.end({ id, moveId: handed.moveId }, 'cancelled');
      await failed(a, b, handed.moveId);
      assert.ok(await isWhole(b.pool, id));
      await assert.rejects(b.mover.cancel(id), /may be the last copy, and stays/);
      assert.ok(await isWhole(b.pool, id));
      assert.equal((await b.mover.cancel(id, undefined, undefined, true)).state, 'cancelled');
      assert.equal(await isWhole(b.pool, id), false);
    });
  }

  test('node a has no copy, and an operator ends the move there all the same: node b keeps the copy', async () => {
    using handed = await Handed.over();
    handed.loseDisk();
    await using a = await handed.open('a');
    assert.equal((await a.mover.cancel(id, undefined, undefined, true)).state, 'cancelled');
    await using b = await handed.open('b');
    await failed(a, b, handed.moveId);
    assert.ok(await isWhole(b.pool, id));
  });

  test('node a has the earlier copy as the volume, by an operator: the later one on node b goes', async () => {
    using handed = await Handed.over();
    handed.putDiskBack();
    await using a = await handed.open('a');
    await assert.rejects(
      a.mover.cancel(id, undefined, undefined, true),
      /than node b has, or may have, .* --node-is-lost b\./,
    );
    const lost = { lostNode: 'b' };
    await assert.rejects(a.mover.cancel(id, lost), /an earlier copy of .* than the one that went to node b.*--even-so/);
    assert.equal((await a.mover.cancel(id, lost, undefined, true)).state, 'cancelled');
    assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined);
    await using b = await handed.open('b');
    await failed(a, b, handed.moveId);
    assert.equal(await isWhole(b.pool, id), false);
  });

  test('node a has taken the volume back: the copy on node b goes; if its disk is lost then, it stays', async () => {
    for (const isLost of [false, true]) {
      using handed = await Handed.over();
      {
        await using a = await handed.open('a');
        await a.mover.cancel(id, { lostNode: 'b' });
        assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined);
      }
      if (isLost) handed.loseDisk();
      await using a = await handed.open('a');
      await using b = await handed.open('b');
      await failed(a, b, handed.moveId);
      assert.equal(await isWhole(b.pool, id), isLost);
    }
  });

  test('the volume was deleted at node a: the copy on node b goes, and stays if the volume came out of the trash, and its disk is lost then', async () => {
    for (const isRestored of [false, true]) {
      using handed = await Handed.over();
      {
        await using a = await handed.open('a');
        await a.mover.cancel(id, { lostNode: 'b' });
        await a.delete(id);
        const { mover, name: nodeId, objects, pools } = a;
        const admin = adminService({ nodeId, pools, objects, mover });
        if (isRestored) await admin.restore({ id }, { deadline: undefined, note: () => undefined });
      }
      if (isRestored) handed.loseDisk();
      await using a = await handed.open('a');
      await using b = await handed.open('b');
      await failed(a, b, handed.moveId);
      assert.equal(await isWhole(b.pool, id), isRestored);
    }
  });

  test('a move that failed is ordered again, and the volume is in another pool of node a by now: it arrives', async () => {
    using scratch = new Scratch('ended');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a', { poolNames: ['data', 'other'] });
    await using b = await MovingNode.open(scratch, broker, 'b');
    await filled(a);
    const refused = mock.method(movesOf(a.pool), 'give', async () => {
      throw new Error('refused by the test');
    });
    const moveId = await order(a, b, id);
    assert.equal((await b.ended(id)).job.state, 'failed');
    refused.mock.restore();
    await a.mover.cancel(id);
    await a.mover.start(id, 'other', undefined);
    await eventually(async () => assert.equal((await a.pools.require(id)).pool.name, 'other'));
    await eventually(() => assert.ok(!a.mover.isMoving(id)));
    await introduce(a, b, { id, moveId }, 'order');
    await b.mover.startFrom({ id, moveId, node: 'a', to: undefined, ticket: 'ticket', limitBytesPerSecond: undefined });
    const { job } = await b.ended(id);
    assert.deepEqual([job.state, job.reason], ['done', undefined]);
  });
});
