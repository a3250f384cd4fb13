import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { Leavings } from '../../src/move/nodes/leavings.ts';
import { leaveNothing } from '../../src/move/source.ts';
import { Moves } from '../../src/pool/catalog/moves.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { id, type NodeName, type PoolName } from './histories/place.ts';
import { World } from './histories/world.ts';
import { isWhole, movesOf } from './two-pools.ts';

async function move(world: World, node: NodeName, toPool: PoolName): Promise<void> {
  await world.fleet.command({ change: 'move', volume: id, node, toPool });
  await world.rest(10_000);
  await world.fleet.told();
}

/** Node a has handed the volume over, all of which waits on node b, and has its pool not in the configuration any more. */
async function handedOver(world: World): Promise<void> {
  world.refuseCommits({ node: 'b', pool: 'data' });
  await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
  await eventually(async () =>
    assert.equal((await movesOf(world.node('a').pools.get('data')).stateOf(id)).why, 'given'),
  );
}

function takeOut(world: World): void {
  world.configured.get('a')?.delete('data');
  world.disks.takeOut('a', 'data');
}

function putIn(world: World): void {
  world.configured.get('a')?.add('data');
  world.disks.putIn('a', 'data');
}

/** Node a has fenced the volume, all of which waits on node b, and has given the move up without its pool. */
async function givenUpFenced(world: World): Promise<void> {
  world.refuseGiving({ node: 'a', pool: 'data' });
  await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
  const stateIn = () => movesOf(world.node('a').pools.get('data')).stateOf(id);
  await eventually(async () => assert.equal((await stateIn()).why, 'closed'));
  await eventually(async () => assert.ok(await isWhole(world.node('b').pools.get('data'), id)));
  await world.whileDown('a', () => takeOut(world));
  await world.fleet.told();
  assert.match(await cancel(world, 'a', true), /move of \S+ to node b is cancelled\. Pool data, .* not looked at/);
  assert.equal(stateAt(world), 'cancelled');
}

const cancel = (world: World, node: NodeName, evenSo: boolean) =>
  world.fleet.command({ change: 'cancel', volume: id, node, evenSo, json: false });
const stateAt = (world: World) => world.node('a').leavings.jobs()[0]?.state;
const usable = async (world: World) => (await world.usable()).map(({ node, pool }) => [node, pool]);

/** The volume became the one on node b without node a, which is there again, and has come back to another pool of that. */
async function cameBack(world: World): Promise<void> {
  await handedOver(world);
  await world.down('a');
  takeOut(world);
  world.fleet.forget('a');
  await world.whileDown('b', () => undefined);
  await world.fleet.told();
  await world.fleet.command({ change: 'finish', volume: id, node: 'b', lostNode: 'a' });
  world.record('b');
  world.fleet.remember('a');
  await world.up('a');
  await world.fleet.told();
}

/** The next driver of node a writes the note of the move once more as it looks for a fence to end. */
function writeNoteOnce(): void {
  const { resume } = Leavings.prototype;
  const { stateOf } = Moves.prototype;
  const resumed = mock.method(Leavings.prototype, 'resume', function (this: Leavings) {
    resumed.mock.restore();
    const write = () => this.wanted(id);
    const looked = mock.method(Moves.prototype, 'stateOf', async function (this: Moves, of: typeof id) {
      looked.mock.restore();
      await write();
      return stateOf.call(this, of);
    });
    return resume.call(this);
  });
}

describe('the move of a volume that leaves a pool which is not in the configuration any more', () => {
  for (const by of ['cancel', 'order', 'deletion'] as const) {
    test(`keeps no volume back that has come to another pool of that node: ${by}`, async () => {
      using scratch = new Scratch('leaving');
      await using world = await World.start(scratch);
      await cameBack(world);
      assert.equal(stateAt(world), 'running');
      await move(world, 'a', 'other');
      world.record('a');
      assert.deepEqual(await usable(world), [['a', 'other']]);
      assert.equal(stateAt(world), 'running');
      if (by === 'cancel') {
        assert.match(await cancel(world, 'a', false), /stays in pool other: the move to node b is cancelled/);
        assert.equal(stateAt(world), 'cancelled');
        assert.deepEqual(await usable(world), [['a', 'other']]);
      } else if (by === 'order') {
        await move(world, 'c', 'data');
        assert.deepEqual(await usable(world), [['c', 'data']]);
      } else {
        await world.fleet.call('DeleteVolume', { volume_id: id, secrets: {} });
        assert.deepEqual(await usable(world), []);
      }
    });
  }

  test('ends by a second word, which a refusal has explained, and what has come to the other node stays', async () => {
    using scratch = new Scratch('leaving');
    await using world = await World.start(scratch);
    await handedOver(world);
    await world.whileDown('a', () => takeOut(world));
    await world.fleet.told();
    await assert.rejects(cancel(world, 'a', false), {
      code: 'UNAVAILABLE',
      message: /not in the configuration of this node: .* may be on node b, .* move cancel \S+ --node b .* --even-so/,
    });
    await cancel(world, 'a', true);
    assert.equal(stateAt(world), 'cancelled');
    await assert.rejects(cancel(world, 'b', false), { message: /all of volume .* may be the last copy, and stays/ });
  });

  test('leaves nothing in that pool once it is there again, if the volume was not handed over', async () => {
    using scratch = new Scratch('leaving');
    await using world = await World.start(scratch);
    await givenUpFenced(world);
    await world.whileDown('a', () => putIn(world));
    await eventually(async () => assert.deepEqual(await usable(world), [['a', 'data']]));
  });

  for (const how of [
    'is there again weeks later',
    'is there again as the note of the move is written once more',
  ] as const) {
    test(`leaves nothing in that pool, either, if that ${how}`, async () => {
      using scratch = new Scratch('leaving');
      await using world = await World.start(scratch);
      await givenUpFenced(world);
      const change = (changed: object) => {
        const path = scratch.join('data-a', 'leaving', `${id}.json`);
        writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), ...changed }));
      };
      if (how === 'is there again weeks later') {
        const endedAt = new Date(Date.now() - 30 * 86_400_000).toISOString();
        await world.whileDown('a', () => change({ endedAt }));
        await world.whileDown('a', () => putIn(world));
      } else {
        await world.whileDown('a', () => {
          change({ isDeleted: true });
          putIn(world);
          writeNoteOnce();
        });
      }
      await eventually(async () => assert.deepEqual(await usable(world), [['a', 'data']]));
    });
  }

  test('ends its fence: the copy on the other node is the volume by a second word alone, if that pool was there again', async () => {
    using scratch = new Scratch('leaving');
    await using world = await World.start(scratch);
    await givenUpFenced(world);
    await eventually(() => assert.equal(world.node('b').sight(id).job.state, 'failed'));
    await world.whileDown('a', () => putIn(world));
    await eventually(async () => assert.deepEqual(await usable(world), [['a', 'data']]));
    await world.startPod();
    world.writePod();
    await world.stopPod();
    await world.whileDown('a', () => takeOut(world));
    await world.fleet.told();
    const finish = (evenSo: boolean) =>
      world.fleet.command({ change: 'finish', volume: id, node: 'b', lostPool: 'data', evenSo });
    await assert.rejects(finish(false), {
      message: /may have been used again on node a, .* had ended by .* --even-so/,
    });
    assert.deepEqual(await usable(world), []);
    await finish(true);
    assert.deepEqual(await usable(world), [['b', 'data']]);
  });

  test('leaves a copy as it is that was handed over', async () => {
    using scratch = new Scratch('leaving');
    await using world = await World.start(scratch);
    await handedOver(world);
    const pool = world.node('a').pools.get('data');
    const [{ moveId } = assert.fail()] = world.node('a').leavings.jobs();
    await leaveNothing(pool, { id, moveId });
    assert.equal((await movesOf(pool).stateOf(id)).why, 'given');
  });
});
