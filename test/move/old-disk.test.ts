import assert from 'node:assert/strict';
import { copyFileSync, cpSync, rmSync } from 'node:fs';
import { describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { digestIn, written } from './devices.ts';
import * as following from './following-node.ts';
import { Broker, blockSpec, filled, introduce, MovingNode, order } from './two-nodes.ts';
import { isWhole, movesOf, refuseVolumes } from './two-pools.ts';

/* A disk comes back as it was before its volume was handed over, while all of the volume waits elsewhere. */

describe('a disk that comes back as it was before the hand-over to another pool', () => {
  const { id, Node, spec } = following;

  /** All of the volume waits in pool two, and pool one has an earlier copy of it. @returns both digests */
  async function handedOver(scratch: Scratch): Promise<{ readonly earlier: string; readonly latest: string }> {
    let earlier: string;
    {
      await using node = await Node.open(scratch);
      await node.pools.get('one').create(spec);
      earlier = await written(node, id);
    }
    copyFileSync(scratch.join('one.img'), scratch.join('one.old'));
    let latest: string;
    {
      await using node = await Node.open(scratch);
      latest = await written(node, id);
      refuseVolumes(node.pools.get('two'));
      await node.mover.start(id, 'two', undefined);
      await eventually(async () => assert.ok(await isWhole(node.pools.get('two'), id)));
      await eventually(async () => assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'given'));
    }
    copyFileSync(scratch.join('one.old'), scratch.join('one.img'));
    return { earlier, latest };
  }

  test('does not become the volume by a cancel without a second word: the copy that waits becomes it', async () => {
    using scratch = new Scratch('old-disk');
    const { latest } = await handedOver(scratch);
    await using node = await Node.open(scratch);
    await eventually(() => assert.equal(node.sight().job.state, 'failed'));
    await assert.rejects(node.mover.cancel(id), {
      name: 'FailedPrecondition',
      message: /may be the last copy, and stays.* holdfast move finish .* --pool-is-lost one.* --even-so/,
    });
    assert.ok(await isWhole(node.pools.get('two'), id));
    assert.equal((await node.mover.finish(id, { lostPool: 'one' })).state, 'done');
    assert.equal(await digestIn(node, id), latest);
    assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'old');
  });

  test('is one of two copies of which none is the volume: pods wait for the end of the move, and it is listed once', async () => {
    using scratch = new Scratch('old-disk');
    const all = ['one', 'two', 'three'].map((name) => following.sized(name));
    {
      await using node = await Node.open(scratch, all);
      await node.pools.get('three').create(spec);
    }
    copyFileSync(scratch.join('three.img'), scratch.join('three.old'));
    let latest: string;
    {
      await using node = await Node.open(scratch, all);
      await node.mover.start(id, 'one', undefined);
      await eventually(() => assert.equal(node.sight().job.state, 'done'));
      latest = await written(node, id);
      refuseVolumes(node.pools.get('two'));
      await node.mover.start(id, 'two', undefined);
      await eventually(async () => assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'given'));
    }
    copyFileSync(scratch.join('three.old'), scratch.join('three.img'));
    const waits = {
      name: 'Unavailable',
      message: new RegExp(
        `waits for the end of a move: the copies in pools one and three .* holdfast move status ${id}\\.$`,
      ),
    };
    {
      await using node = await Node.open(scratch, all, ['two']);
      await assert.rejects(node.pools.require(id), waits);
    }
    {
      await using node = await Node.open(
        scratch,
        all.filter(({ name }) => name !== 'two'),
      );
      await assert.rejects(node.pools.require(id), waits);
      const { entries } =
        (await node.controller.ListVolumes?.({ starting_token: '', max_entries: 0 }, following.call)) ?? assert.fail();
      assert.deepEqual(
        entries?.map(({ volume }) => volume?.volume_id),
        [id],
      );
    }
    await using node = await Node.open(scratch, all);
    await eventually(() => assert.equal(node.sight().job.state, 'done'));
    assert.equal(await digestIn(node, id), latest);
  });

  test('becomes the volume with a second word', async () => {
    using scratch = new Scratch('old-disk');
    const { earlier } = await handedOver(scratch);
    await using node = await Node.open(scratch);
    await eventually(() => assert.equal(node.sight().job.state, 'failed'));
    assert.equal((await node.mover.cancel(id, undefined, undefined, true)).state, 'cancelled');
    assert.equal(await digestIn(node, id), earlier);
    assert.ok(!(await isWhole(node.pools.get('two'), id)));
  });
});

describe('a copy that waits on another node', () => {
  const { id } = blockSpec;

  test('stays where the first node has an earlier one, as its disk is as it was before: a second word removes it', async () => {
    using scratch = new Scratch('old-disk');
    const broker = new Broker();
    {
      await using a = await MovingNode.open(scratch, broker, 'a');
      await filled(a);
    }
    cpSync(scratch.join('a'), scratch.join('a-old'), { recursive: true });
    let moveId: string;
    {
      await using b = await MovingNode.open(scratch, broker, 'b');
      await using a = await MovingNode.open(scratch, broker, 'a');
      await written(a, id);
      refuseVolumes(b.pool);
      moveId = await order(a, b, id);
      await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given'));
    }
    rmSync(scratch.join('a'), { recursive: true });
    cpSync(scratch.join('a-old'), scratch.join('a'), { recursive: true });
    await using a = await MovingNode.open(scratch, broker, 'a');
    await using b = await MovingNode.open(scratch, broker, 'b');
    assert.equal((await movesOf(a.pool).stateOf(id)).why, 'old');
    await introduce(a, b, { id, moveId });
    await eventually(() =>
      assert.rejects(b.mover.cancel(id), {
        name: 'FailedPrecondition',
        message: /node a has an earlier copy of it, .* may be the last copy, and stays/,
      }),
    );
    assert.ok(await isWhole(b.pool, id));
    assert.equal((await b.mover.cancel(id, undefined, undefined, true)).state, 'cancelled');
    assert.ok(!(await isWhole(b.pool, id)));
  });

  test('stays while its pool is out of the configuration, as its first node is lost', async () => {
    using scratch = new Scratch('old-disk');
    const broker = new Broker();
    const poolNames = ['data', 'other'];
    {
      await using a = await MovingNode.open(scratch, broker, 'a');
      await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
      await filled(a);
      refuseVolumes(b.pool);
      await order(a, b, id);
      await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given'));
    }
    const lost = { lostNode: 'a', isComing: true };
    {
      await using b = await MovingNode.open(scratch, broker, 'b', { poolNames: ['other'] });
      await assert.rejects(b.mover.cancel(id, lost), { message: /may be the last copy, and stays/ });
    }
    await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
    assert.ok(await isWhole(b.pool, id));
    assert.equal((await b.mover.finish(id, { lostNode: 'a' })).state, 'done');
    await digestIn(b, id);
  });
});

describe('a volume that has come to another node, which has noted that, and whose pool is out of the configuration there', () => {
  const { id } = blockSpec;
  const poolNames = ['data', 'other'];

  /** The pod on node b has written. Node a has not heard that it has come. @returns the id of the move, and the digest of the switch */
  async function come(scratch: Scratch, broker: Broker, a: MovingNode) {
    await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
    await filled(a);
    const atSwitch = await digestIn(a, id);
    movesOf(a.pool).settle = async () => {
      throw new Error('it cannot go');
    };
    const moveId = await order(a, b, id);
    await eventually(async () => assert.ok((await b.pools.find(id)) !== undefined));
    const latest = await written(b, id);
    await eventually(async () => assert.equal((await movesOf(b.pool).noted(id)).at, undefined));
    return { atSwitch, latest, moveId };
  }

  test('is not given up by a cancel, and is there again with its pool', async () => {
    using scratch = new Scratch('old-disk');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    const { latest, moveId } = await come(scratch, broker, a);
    {
      await using b = await MovingNode.open(scratch, broker, 'b', { poolNames: ['other'] });
      await introduce(a, b, { id, moveId });
      await eventually(() =>
        assert.rejects(b.mover.cancel(id), {
          name: 'VolumeHasCome',
          message: /has come to this node, .* a pool that is not in the configuration.* move cancel .* --even-so/,
        }),
      );
      assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given');
    }
    await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
    assert.equal(await digestIn(b, id), latest);
  });

  test('is the copy of the switch by a second word, and the disk that comes back has an earlier copy', async () => {
    using scratch = new Scratch('old-disk');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    const { atSwitch, moveId } = await come(scratch, broker, a);
    {
      await using b = await MovingNode.open(scratch, broker, 'b', { poolNames: ['other'] });
      await introduce(a, b, { id, moveId });
      await eventually(async () =>
        assert.equal((await b.mover.cancel(id, undefined, undefined, true)).state, 'cancelled'),
      );
    }
    assert.equal(await digestIn(a, id), atSwitch);
    // Later than each copy that its pool can have, also in a node that has no note.
    assert.ok((await movesOf(a.pool).stateOf(id)).mark.generation > 1_000_000);
    await using b = await MovingNode.open(scratch, broker, 'b', { poolNames });
    assert.equal((await movesOf(b.pool).stateOf(id)).why, 'old');
  });
});

describe('a disk of the other node that comes back as it was before the commit', () => {
  const { id } = blockSpec;

  /** Node b has the volume, and a pod there has written; then its disk is as it was before the commit. Node a has not heard of it. */
  async function cameAndBack(scratch: Scratch, broker: Broker, a: MovingNode) {
    let moveId: string;
    {
      await using b = await MovingNode.open(scratch, broker, 'b');
      await filled(a);
      refuseVolumes(b.pool);
      moveId = await order(a, b, id);
      await eventually(async () => assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given'));
    }
    cpSync(scratch.join('b'), scratch.join('b-old'), { recursive: true });
    const settle = movesOf(a.pool).settle;
    movesOf(a.pool).settle = async () => {
      throw new Error('it cannot go');
    };
    {
      await using b = await MovingNode.open(scratch, broker, 'b');
      await eventually(async () => {
        await introduce(a, b, { id, moveId });
        assert.ok((await b.pools.find(id)) !== undefined);
      });
      await written(b, id);
      // After the commit it is noted once more.
      await eventually(async () => {
        const { at, generation } = await movesOf(b.pool).noted(id);
        assert.deepEqual([at, generation], [undefined, 1]);
      });
    }
    rmSync(scratch.join('b'), { recursive: true });
    cpSync(scratch.join('b-old'), scratch.join('b'), { recursive: true });
    movesOf(a.pool).settle = settle;
    return moveId;
  }

  /** The move stays as it is, and says why. */
  async function isRefused(b: MovingNode): Promise<void> {
    await eventually(() => {
      const { job, trouble } = b.sight(id);
      assert.match(trouble ?? job.reason ?? '', /has come to this node, .* or as it was before\. .*--even-so/);
    });
  }

  test('is not committed a second time: a second word makes the copy of the first node the volume', async () => {
    using scratch = new Scratch('old-disk');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    const moveId = await cameAndBack(scratch, broker, a);
    await using b = await MovingNode.open(scratch, broker, 'b');
    await introduce(a, b, { id, moveId });
    await isRefused(b);
    assert.ok(await isWhole(b.pool, id));
    assert.equal((await movesOf(a.pool).stateOf(id)).why, 'given');
    await assert.rejects(b.mover.cancel(id), { name: 'VolumeHasCome' });
    await assert.rejects(b.mover.finish(id, { lostNode: 'a' }), /has come to node .* before, .* --even-so/);
    assert.equal((await b.mover.cancel(id, undefined, undefined, true)).state, 'cancelled');
    assert.equal((await movesOf(a.pool).stateOf(id)).why, undefined);
    assert.ok(!(await isWhole(b.pool, id)));
    // The later disk has an earlier copy, also in a node that has no note.
    assert.ok((await movesOf(a.pool).stateOf(id)).mark.generation > 1_000_000);
  });

  test('becomes the volume by the word that the first node is lost, and a second one', async () => {
    using scratch = new Scratch('old-disk');
    const broker = new Broker();
    await using a = await MovingNode.open(scratch, broker, 'a');
    const moveId = await cameAndBack(scratch, broker, a);
    await using b = await MovingNode.open(scratch, broker, 'b');
    await introduce(a, b, { id, moveId });
    await isRefused(b);
    assert.equal((await b.mover.finish(id, { lostNode: 'a' }, true)).state, 'done');
    assert.ok((await movesOf(b.pool).stateOf(id)).mark.generation > 1_000_000);
  });
});
