import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { Moves } from '../../src/pool/catalog/moves.ts';
import { DataLoss, Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { id } from './histories/place.ts';
import { World } from './histories/world.ts';
import { movesOf } from './two-pools.ts';

/** All of a first state of the volume waits on node b. Its fence on node a ended, and a pod has written there since. */
async function writtenSince(world: World): Promise<void> {
  mock.method(movesOf(world.node('a').pools.get('data')), 'give', async () => {
    throw new DataLoss('a disk fails');
  });
  await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
  await eventually(() => {
    const { job, progress, trouble } = world.node('b').sight(id);
    assert.notEqual(job.state, 'running', `${progress?.phase} ${trouble}`);
  });
  await world.startPod();
  world.writePod();
  await world.stopPod();
}

async function loseDisk(world: World): Promise<void> {
  await world.whileDown('a', () => {
    world.configured.get('a')?.delete('data');
    world.disks.takeOut('a', 'data');
  });
  await world.fleet.told();
}

const versions = async (world: World) => (await world.usable()).map(({ node, version }) => [node, version]);

describe('a copy that more than one thing is against', () => {
  for (const lost of [{ lostNode: 'a' }, { lostPool: 'data' }]) {
    const named = 'lostNode' in lost ? 'node' : 'pool';
    test(`is the volume by a second word only behind a refusal that has shown each: its first ${named} is lost`, async () => {
      using scratch = new Scratch('second-word');
      await using world = await World.start(scratch);
      await writtenSince(world);
      world.record('c');
      if ('lostNode' in lost) {
        await world.down('a');
        world.fleet.forget('a');
        await world.fleet.told();
      } else await loseDisk(world);
      const finish = (evenSo: boolean) =>
        world.fleet.command({ change: 'finish', volume: id, node: 'b', ...lost, evenSo });
      await assert.rejects(finish(false), {
        name: 'FailedPrecondition',
        message:
          /may be on node c, .* Also: .* may have been used again on node a, .* had ended by .* all of that is so: --even-so\.$/,
      });
      assert.deepEqual(await versions(world), []);
      await finish(true);
      assert.deepEqual(await versions(world), [['b', 1]]);
    });
  }

  test('shows also that it has come before, within a node', async () => {
    using scratch = new Scratch('second-word');
    await using world = await World.start(scratch);
    const [data, other] = [{ node: 'a', pool: 'data' } as const, { node: 'a', pool: 'other' } as const];
    world.refuseCommits(other);
    await world.node('a').mover.start(id, 'other', undefined);
    const state = () => movesOf(world.node('a').pools.get('data')).stateOf(id);
    await eventually(async () => assert.equal((await state()).why, 'given'));
    let saved = '';
    const settle = mock.method(Moves.prototype, 'settle', async () => {
      throw new Unavailable('pool data does not answer.');
    });
    try {
      await world.whileDown('a', () => {
        saved = world.disks.save(other.node, other.pool);
      });
      await eventually(() => assert.equal(world.node('a').sight(id).trouble, 'pool data does not answer.'));
      await world.fleet.told();
      await world.startPod();
      world.writePod();
      await world.stopPod();
    } finally {
      settle.mock.restore();
    }
    await world.whileDown('a', () => {
      world.disks.bringBack(other.node, other.pool, saved);
      world.configured.get('a')?.delete('data');
      world.disks.takeOut(data.node, data.pool);
    });
    await world.fleet.told();
    world.record('c');
    const finish = (evenSo: boolean) =>
      world.fleet.command({ change: 'finish', volume: id, node: 'a', lostPool: 'data', evenSo });
    await assert.rejects(finish(false), {
      message: /may be on node c, .* Also: .* has come to pool other at 20.* all of that is so: --even-so\.$/,
    });
    await finish(true);
    assert.deepEqual(await versions(world), [['a', 1]]);
  });

  test('shows also that its first node has had a later one since, and that its own node had it before', async () => {
    using scratch = new Scratch('second-word');
    await using world = await World.start(scratch);
    await writtenSince(world);
    await loseDisk(world);
    const note = async (node: 'a' | 'b', generation: number) =>
      world.whileDown(node, () => {
        mkdirSync(scratch.join(`data-${node}`, 'moved'), { recursive: true });
        writeFileSync(scratch.join(`data-${node}`, 'moved', `${id}.json`), JSON.stringify({ format: 1, generation }));
      });
    await note('a', 3);
    await note('b', 1);
    await world.fleet.told();
    await assert.rejects(
      world.fleet.command({ change: 'finish', volume: id, node: 'b', lostPool: 'data', evenSo: false }),
      {
        message:
          /may have been used again .* Also: .* has come to node b before, .* Also: .* has had a later copy since/,
      },
    );
  });
});

describe('a copy that its node has given up by a cancel whose answer was lost', () => {
  for (const notes of ['has', 'has lost'] as const) {
    test(`is the volume by a second word alone, once its first node is lost, which may have used it again: its own node ${notes} its note`, async () => {
      using scratch = new Scratch('second-word');
      await using world = await World.start(scratch);
      world.refuseCommits({ node: 'b', pool: 'data' });
      await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
      const moves = movesOf(world.node('a').pools.get('data'));
      await eventually(async () => assert.equal((await moves.stateOf(id)).why, 'given'));
      const takeBack = moves.takeBack.bind(moves);
      const { nodes } = world.node('a');
      mock.method(moves, 'takeBack', async (...args: Parameters<typeof takeBack>) => {
        await takeBack(...args);
        void nodes.close();
        throw new Unavailable('the link is cut');
      });
      await assert.rejects(world.fleet.command({ change: 'cancel', volume: id, node: 'b' }));
      await world.down('b');
      await world.startPod();
      world.writePod();
      await world.stopPod();
      await world.down('a');
      world.fleet.forget('a');
      // The controller has noted it, too.
      if (notes === 'has lost') rmSync(scratch.join('data-b/moved', `${id}.json`));
      await world.up('b');
      await world.fleet.told();
      const finish = (evenSo: boolean) =>
        world.fleet.command({ change: 'finish', volume: id, node: 'b', lostNode: 'a', evenSo });
      await assert.rejects(finish(false), {
        message:
          notes === 'has'
            ? /may have been used again on node a: node b has given .* --even-so/
            : /^volume \S+ was taken back by node a at \S+, as Secret \S+ says: .* nothing that was written there since\. .* --even-so/,
      });
      assert.deepEqual(await versions(world), []);
      await finish(true);
      assert.deepEqual(await versions(world), [['b', 1]]);
    });
  }
});
