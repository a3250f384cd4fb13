import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { DataLoss } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { id, type NodeName, type PoolName } from './histories/place.ts';
import { World } from './histories/world.ts';
import { isWhole, movesOf } from './two-pools.ts';

/* Something of a volume is on a node that the volume itself has left: a copy that a failed move has brought, or one in the trash. */

/** Pool data of node a hands nothing over, in that move. */
async function failing(world: World, order: () => Promise<unknown>, at: NodeName): Promise<void> {
  const give = mock.method(movesOf(world.node('a').pools.get('data')), 'give', async () => {
    throw new DataLoss('a disk fails');
  });
  await order();
  await eventually(() => {
    const { job, progress, trouble } = world.node(at).mover.sights()[0] ?? assert.fail('it is not moving');
    assert.equal(job.state, 'failed', `${progress?.phase} ${trouble}`);
  });
  give.mock.restore();
  await world.fleet.told();
}

async function moved(world: World, node: NodeName, toPool: PoolName = 'data'): Promise<void> {
  await world.fleet.command({ change: 'move', volume: id, node, toPool });
  await eventually(() => assert.ok(!world.isMoving()));
  await world.fleet.told();
  world.record(node);
}

async function placesOf(world: World): Promise<string[]> {
  return (await world.usable()).map(({ node, pool }) => `${node}/${pool}`);
}

describe('the copy of a failed move goes by a second word, wherever the volume is by then, and the volume can come back', () => {
  test('within the node', async () => {
    using scratch = new Scratch('part');
    await using world = await World.start(scratch);
    await failing(world, () => world.node('a').mover.start(id, 'other', undefined), 'a');
    await moved(world, 'b');
    const cancel = { change: 'cancel', volume: id, node: 'a' } as const;
    await assert.rejects(moved(world, 'a'), /holdfast move cancel \S+ --node a --even-so/);
    await world.fleet.command({ ...cancel, evenSo: true });
    assert.deepEqual(await placesOf(world), ['b/data']);
    await moved(world, 'a');
    assert.deepEqual(await placesOf(world), ['a/data']);
  });

  test('from another node', async () => {
    using scratch = new Scratch('part');
    await using world = await World.start(scratch);
    const order = { change: 'move', volume: id, node: 'b', toPool: 'data' } as const;
    await failing(world, () => world.fleet.command(order), 'b');
    // Its first node ends the move that failed.
    await world.whileDown('a', () => undefined);
    await world.fleet.told();
    await moved(world, 'c');
    await assert.rejects(moved(world, 'b'), /move cancel \S+ --node b --even-so/);
    await world.fleet.command({ change: 'cancel', volume: id, node: 'b', evenSo: true });
    assert.deepEqual(await placesOf(world), ['c/data']);
    await moved(world, 'b');
    assert.deepEqual(await placesOf(world), ['b/data']);
  });
});

test('a copy that its volume has left is not restored while another node has a later one in its trash', async () => {
  using scratch = new Scratch('part');
  await using world = await World.start(scratch);
  await world.node('a').mover.start(id, 'other', undefined);
  await eventually(() => assert.equal(world.node('a').mover.sights()[0]?.job.state, 'done'));
  await world.fleet.told();
  await moved(world, 'b');
  await moved(world, 'a');
  await world.delete();
  await world.fleet.told();
  await world.node('a').pools.get('other').purge(id);
  const restore = { change: 'restore', volume: id, node: 'a' } as const;
  for (const evenSo of [false, true]) {
    await assert.rejects(
      world.fleet.command({ ...restore, evenSo }),
      /node b has a later copy of volume .* in its trash/,
    );
  }
  assert.deepEqual(await placesOf(world), []);
});

test('a finish without the first pool that was cut short behind its commit is ended by a second word: the volume stays where it is', async () => {
  using scratch = new Scratch('part');
  await using world = await World.start(scratch);
  world.refuseCommits({ node: 'b', pool: 'data' });
  await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
  await eventually(async () => assert.ok(await isWhole(world.node('b').pools.get('data'), id)));
  await eventually(async () =>
    assert.equal((await movesOf(world.node('a').pools.get('data')).stateOf(id)).why, 'given'),
  );
  await world.whileDown('a', () => {
    world.configured.get('a')?.delete('data');
    world.disks.takeOut('a', 'data');
  });
  await world.whileDown('b', () => undefined);
  await world.fleet.told();
  const note = scratch.join('data-b/moves', `${id}.json`);
  const before = readFileSync(note, 'utf8');
  const finish = () => world.fleet.command({ change: 'finish', volume: id, node: 'b', lostPool: 'data' });
  await finish();
  // Its driver was killed before it had noted the end.
  await world.whileDown('b', () => writeFileSync(note, before));
  await world.fleet.told();
  await assert.rejects(finish(), /move cancel \S+ --node b --even-so ends the move/);
  await world.fleet.command({ change: 'cancel', volume: id, node: 'b', evenSo: true });
  assert.deepEqual(await placesOf(world), ['b/data']);
  assert.equal(world.node('b').mover.sights()[0]?.job.state, 'done');
  world.record('b');
  await moved(world, 'c');
  assert.deepEqual(await placesOf(world), ['c/data']);
});
