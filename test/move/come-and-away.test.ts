import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { adminService } from '../../src/admin/service.ts';
import { moveRow } from '../../src/cli/output/tables/moves.ts';
import { Moves } from '../../src/pool/catalog/moves.ts';
import { Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { digestIn, written } from './devices.ts';
import { call, id, Node, sized, spec } from './following-node.ts';
import { Broker, blockSpec, MovingNode } from './two-nodes.ts';
import { movesOf, refuseVolumes } from './two-pools.ts';

/*
 * A volume has come to another pool of its node, and was used there. The pool that it has left has not heard of that, and the disk of the
 * other one is away then, empty, or as it was before.
 */

/** Small ones: their disks are copied. */
const small = (name: string) => sized(name, 320n << 20n);
const both = [small('one'), small('two')];

interface Written {
  /** As it was handed over. */
  readonly handedOver: string;
  /** As a pod has left it in pool two. */
  readonly latest: string;
}

/** Pool one does not hear that the volume has come, and a pod writes to it in pool two. */
async function come(scratch: Scratch): Promise<Written> {
  let handedOver: string;
  {
    await using node = await Node.open(scratch, both);
    await node.pools.get('one').create(spec);
    handedOver = await written(node, id);
    refuseVolumes(node.pools.get('two'));
    await node.mover.start(id, 'two', undefined);
    await eventually(() => assert.equal(node.sight().trouble, 'pool two does not answer.'));
  }
  copyFileSync(scratch.join('two.img'), scratch.join('two.before'));
  const settle = mock.method(Moves.prototype, 'settle', async () => {
    throw new Unavailable('pool one does not answer.');
  });
  try {
    await using node = await Node.open(scratch, both);
    await eventually(() => assert.equal(node.sight().trouble, 'pool one does not answer.'));
    assert.equal((await node.pools.require(id)).pool.name, 'two');
    return { handedOver, latest: await written(node, id) };
  } finally {
    settle.mock.restore();
  }
}

describe('the copy that was handed over becomes the volume by a second word alone', () => {
  test('where the other pool is out of the configuration', async () => {
    using scratch = new Scratch('come');
    const { handedOver } = await come(scratch);
    await using node = await Node.open(scratch, [small('one')]);
    const admin = adminService({ nodeId: 'node', ...node });
    const [move] = (await admin.listMoves({}, call)).moves;
    assert.match(
      moveRow(move ?? assert.fail()).at(-1) ?? '',
      /; it has come to pool two at 20\S+Z, and may have been used there$/,
    );
    await assert.rejects(node.mover.cancel(id), {
      name: 'FailedPrecondition',
      message: /has come to pool two at 20.*Z, and may have been used there.* holdfast move cancel .* --even-so\.$/,
    });
    assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'given');
    assert.equal((await node.mover.cancel(id, undefined, undefined, true)).state, 'cancelled');
    assert.equal(await digestIn(node, id), handedOver);
  });

  test('where the other pool has an empty disk', async () => {
    using scratch = new Scratch('come');
    const { latest } = await come(scratch);
    renameSync(scratch.join('two.img'), scratch.join('two.away'));
    rmSync(scratch.join('data/pools/two.id'), { force: true });
    {
      await using node = await Node.open(scratch, both);
      await eventually(() => assert.equal(node.sight().job.state, 'failed'));
      assert.match(node.sight().job.reason ?? '', /had come to pool two at 20.* --even-so makes the copy in pool one/);
      await assert.rejects(node.mover.cancel(id), /has come to pool two at 20/);
    }
    renameSync(scratch.join('two.away'), scratch.join('two.img'));
    rmSync(scratch.join('data/pools/two.id'), { force: true });
    await using node = await Node.open(scratch, both);
    assert.equal(await digestIn(node, id), latest);
    assert.equal((await node.pools.require(id)).pool.name, 'two');
  });

  test('where the other disk is as it was before the commit: nothing is committed twice, also by no other order', async () => {
    using scratch = new Scratch('come');
    const { handedOver, latest } = await come(scratch);
    copyFileSync(scratch.join('two.img'), scratch.join('two.later'));
    copyFileSync(scratch.join('two.before'), scratch.join('two.img'));
    {
      await using node = await Node.open(scratch, both);
      await eventually(() => assert.equal(node.sight().job.state, 'failed'));
      await assert.rejects(node.mover.cancel(id), /has come to pool two at 20/);
      await assert.rejects(node.mover.start(id, 'two', undefined), /waits for the end of another move/);
      assert.equal((await movesOf(node.pools.get('one')).stateOf(id)).why, 'given');
    }
    {
      await using node = await Node.open(scratch, [small('two')]);
      await assert.rejects(node.mover.finish(id, { lostPool: 'one' }), {
        name: 'FailedPrecondition',
        message: /has come to pool two at 20.*, as the node has noted on another disk.* --even-so/,
      });
    }
    copyFileSync(scratch.join('two.img'), scratch.join('two.before'));
    copyFileSync(scratch.join('two.later'), scratch.join('two.img'));
    {
      await using node = await Node.open(scratch, both);
      assert.equal(await digestIn(node, id), latest);
    }
    copyFileSync(scratch.join('two.before'), scratch.join('two.img'));
    await using node = await Node.open(scratch, both);
    await node.mover.cancel(id, undefined, undefined, true);
    assert.equal((await node.pools.require(id)).pool.name, 'one');
    assert.equal(await digestIn(node, id), handedOver);
  });

  test('where it may have come, and the disk of the driver has not noted that in time', async () => {
    using scratch = new Scratch('come');
    await using _first = await Node.open(scratch, both);
    await _first.pools.get('one').create(spec);
    const handedOver = await written(_first, id);
    refuseVolumes(_first.pools.get('two'));
    await _first.mover.start(id, 'two', undefined);
    await eventually(() => assert.equal(_first.sight().trouble, 'pool two does not answer.'));
    await _first[Symbol.asyncDispose]();
    await using node = await Node.open(scratch, [small('one')]);
    await assert.rejects(node.mover.cancel(id), /may have come to pool two, and been used there/);
    await node.mover.cancel(id, undefined, undefined, true);
    assert.equal(await digestIn(node, id), handedOver);
  });

  test('where the disk of the driver was lost, too', async () => {
    using scratch = new Scratch('come');
    const { handedOver } = await come(scratch);
    for (const lost of ['moves', 'moved']) rmSync(scratch.join('data', lost), { recursive: true });
    await using node = await Node.open(scratch, [small('one')]);
    await assert.rejects(node.mover.cancel(id), /may have come to another pool of this node, and been used there/);
    await node.mover.cancel(id, undefined, undefined, true);
    assert.equal(await digestIn(node, id), handedOver);
  });
});

describe('a pod that uses the volume from a pool which is out of the configuration', () => {
  const { id: blockId } = blockSpec;
  const staged = { name: 'FailedPrecondition', message: /is still staged on this node, from a pool that is not open/ };

  test('keeps the copy that was handed over from becoming the volume, also by a second word', async () => {
    using scratch = new Scratch('come');
    const broker = new Broker();
    {
      await using node = await MovingNode.open(scratch, broker, 'a', { poolNames: ['data', 'other'] });
      await node.pool.create(blockSpec);
      await written(node, blockId);
      mock.method(movesOf(node.pool), 'settle', async () => {
        throw new Unavailable('pool data does not answer.');
      });
      await node.mover.start(blockId, 'other', undefined);
      await eventually(() => assert.equal(node.sight(blockId).trouble, 'pool data does not answer.'));
    }
    await using node = await MovingNode.open(scratch, broker, 'a', { poolNames: ['data'], staged: [blockId] });
    await assert.rejects(node.mover.cancel(blockId, undefined, undefined, true), staged);
    assert.equal((await movesOf(node.pool).stateOf(blockId)).why, 'given');
  });

  test('keeps a copy that has come from being finished, also by a second word', async () => {
    using scratch = new Scratch('come');
    const broker = new Broker();
    {
      await using node = await MovingNode.open(scratch, broker, 'a', { poolNames: ['data', 'other'] });
      await node.pool.create(blockSpec);
      await written(node, blockId);
      mock.method(movesOf(node.pool), 'give', async () => {
        throw new Error('refused by the test');
      });
      await node.mover.start(blockId, 'other', undefined);
      await node.ended(blockId);
    }
    await using node = await MovingNode.open(scratch, broker, 'a', { poolNames: ['other'], staged: [blockId] });
    await assert.rejects(node.mover.finish(blockId, { lostPool: 'data' }, true), staged);
  });
});

test('an earlier copy does not become the volume while another pool has a later one in its trash', async () => {
  using scratch = new Scratch('come');
  const all = [...both, small('three')];
  {
    await using node = await Node.open(scratch, all);
    await node.pools.get('one').create(spec);
  }
  copyFileSync(scratch.join('one.img'), scratch.join('one.before'));
  {
    await using node = await Node.open(scratch, all);
    for (const to of ['three', 'two']) {
      await node.mover.start(id, to, undefined);
      await eventually(() => assert.equal(node.sight().job.state, 'done'));
      await written(node, id);
    }
  }
  copyFileSync(scratch.join('one.before'), scratch.join('one.img'));
  await using node = await Node.open(scratch, [small('one'), small('three')]);
  await assert.rejects(node.mover.cancel(id, undefined, undefined, true), {
    name: 'FailedPrecondition',
    message: /pool three has a later copy of volume .* in its trash than pool one has: holdfast trash restore /,
  });
  assert.equal((await node.pools.get('three').trash()).length, 1);
});

test('a later copy in the trash is restored by a word where all of the latest one waited in a pool that is lost, too', async () => {
  using scratch = new Scratch('come');
  const three = small('three');
  {
    await using node = await Node.open(scratch, [...both, three]);
    await node.pools.get('one').create(spec);
  }
  copyFileSync(scratch.join('one.img'), scratch.join('one.before'));
  let second = '';
  {
    await using node = await Node.open(scratch, [...both, three]);
    for (const to of ['three', 'one']) {
      await node.mover.start(id, to, undefined);
      await eventually(() => assert.equal(node.sight().job.state, 'done'));
      const digest = await written(node, id);
      if (to === 'three') second = digest;
    }
    refuseVolumes(node.pools.get('two'));
    await node.mover.start(id, 'two', undefined);
    await eventually(() => assert.equal(node.sight().trouble, 'pool two does not answer.'));
  }
  copyFileSync(scratch.join('one.before'), scratch.join('one.img'));
  await using node = await Node.open(scratch, [small('one'), three]);
  await assert.rejects(node.mover.cancel(id, undefined, undefined, true), /trash restore \S+ --pool-is-lost two\./);
  const { mover, objects, pools } = node;
  const admin = adminService({ nodeId: 'node', pools, objects, mover });
  await assert.rejects(
    admin.restore({ id }, call),
    /If pool two is lost: holdfast trash restore \S+ --pool-is-lost two\./,
  );
  await assert.rejects(admin.restore({ id, lostPool: 'two' }, call), /has moved more than once .* --even-so\./);
  assert.equal((await admin.restore({ id, lostPool: 'two', evenSo: true }, call)).pool, 'three');
  assert.equal(await digestIn(node, id), second);
  // Both ends of the move that is left.
  await node.mover.cancel(id, undefined, undefined, true);
  assert.equal(await digestIn(node, id), second);
});

test('a move that goes on after its copy was taken back has not arrived by its earlier hand-over', async () => {
  using scratch = new Scratch('come');
  await come(scratch);
  const note = scratch.join('data/moves', `${id}.json`);
  const before = readFileSync(note, 'utf8');
  {
    await using node = await Node.open(scratch, [small('one')]);
    await node.mover.cancel(id, undefined, undefined, true);
  }
  // The driver was killed before it had noted the end.
  writeFileSync(note, before);
  {
    await using node = await Node.open(scratch, both);
    refuseVolumes(node.pools.get('two'));
    await eventually(() => assert.equal(node.sight().trouble, 'pool two does not answer.'));
  }
  await using node = await Node.open(scratch, both);
  await eventually(() => assert.equal(node.sight().job.state, 'done', `${node.sight().job.reason}`));
  assert.equal((await node.pools.require(id)).pool.name, 'two');
});
