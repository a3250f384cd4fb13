import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { adminService } from '../../src/admin/service.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { id, type NodeName, type PoolName } from './histories/place.ts';
import { World } from './histories/world.ts';
import { movesOf } from './two-pools.ts';

async function write(world: World): Promise<void> {
  await world.startPod();
  world.writePod();
  await world.stopPod();
}

async function move(world: World, node: NodeName, toPool: PoolName): Promise<void> {
  // A node that has just started may not have told all yet.
  await eventually(async () => void (await world.fleet.command({ change: 'move', volume: id, node, toPool })));
  await world.rest(10_000);
  await world.fleet.told();
  world.record(node);
}

async function lose(world: World, node: NodeName): Promise<void> {
  await world.down(node);
  world.fleet.forget(node);
  await world.fleet.told();
}

const order = (world: World, change: 'cancel' | 'restore', evenSo: boolean) =>
  world.fleet.command({ change, volume: id, node: 'a', lostNode: 'b', evenSo });
const usable = async (world: World) => (await world.usable()).map(({ node, pool, version }) => [node, pool, version]);
const earlier = { message: /earlier copy of volume \S+ than the one that went to node b.* --even-so/ };

describe('an earlier copy than the one that its node has handed over last', () => {
  test('comes out of the trash by a second word alone, while the pool with the last one is out of the configuration', async () => {
    using scratch = new Scratch('earlier');
    await using world = await World.start(scratch);
    await move(world, 'b', 'data');
    await write(world);
    await move(world, 'a', 'other');
    await write(world);
    await move(world, 'b', 'data');
    await world.whileDown('a', () => {
      world.configured.get('a')?.delete('other');
      world.disks.takeOut('a', 'other');
    });
    await lose(world, 'b');
    await assert.rejects(order(world, 'restore', false), earlier);
    // Its node says it, too, without a controller; and the controller together with all else that is against it.
    const { mover, name: nodeId, objects, pools } = world.node('a');
    const root = adminService({ nodeId, pools, objects, mover });
    const call = { deadline: undefined, note: () => undefined };
    await assert.rejects(root.restore({ id, lostNode: 'b' }, call), earlier);
    world.record('c');
    await assert.rejects(order(world, 'restore', false), { message: /may be on node c, .* Also: .* earlier copy/ });
    world.record('b');
    await world.whileDown('a', () => {
      world.configured.get('a')?.add('other');
      world.disks.putIn('a', 'other');
    });
    await world.fleet.told();
    await order(world, 'restore', false);
    assert.deepEqual(await usable(world), [['a', 'other', 3]]);
  });

  test('is the volume by a second word alone, also if it was handed over itself before that', async () => {
    using scratch = new Scratch('earlier');
    await using world = await World.start(scratch);
    world.refuseSettling({ node: 'a', pool: 'data' });
    await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
    await eventually(async () => assert.equal((await world.usable())[0]?.node, 'b'));
    let saved = '';
    await world.whileDown('a', () => {
      saved = world.disks.save('a', 'data');
    });
    await world.rest(15_000);
    await write(world);
    await move(world, 'a', 'data');
    await write(world);
    await move(world, 'b', 'data');
    await world.whileDown('a', () => world.disks.bringBack('a', 'data', saved));
    await lose(world, 'b');
    await assert.rejects(order(world, 'cancel', false), earlier);
    await order(world, 'cancel', true);
    assert.deepEqual(await usable(world), [['a', 'data', 1]]);
  });

  test('is none that came out of the trash too late, as long as a disk that was put back has it', async () => {
    using scratch = new Scratch('earlier');
    await using world = await World.start(scratch);
    let saved = '';
    await world.whileDown('a', () => {
      saved = world.disks.save('a', 'data');
    });
    await write(world);
    await move(world, 'b', 'data');
    await world.whileDown('a', () => world.disks.bringBack('a', 'data', saved));
    await lose(world, 'b');
    await assert.rejects(order(world, 'restore', false), earlier);
    await order(world, 'restore', true);
    assert.deepEqual(await usable(world), [['a', 'data', 1]]);
  });

  /** Node a has the first state on a disk that was put back in pool data, and the one that went to node b in the trash of pool other. */
  async function putBack(world: World, by: 'another pool' | 'another node'): Promise<void> {
    let saved = '';
    await world.whileDown('a', () => {
      saved = world.disks.save('a', 'data');
    });
    if (by === 'another node') {
      await move(world, 'c', 'data');
      await move(world, 'a', 'other');
    } else {
      await world.node('a').mover.start(id, 'other', undefined);
      await world.rest(10_000);
    }
    await write(world);
    await move(world, 'b', 'data');
    await world.whileDown('a', () => world.disks.bringBack('a', 'data', saved));
    await world.fleet.told();
  }

  for (const by of ['another pool', 'another node'] as const) {
    test(`on a disk that was put back keeps a later one in the trash from no restore, which was in ${by} meanwhile`, async () => {
      using scratch = new Scratch('earlier');
      await using world = await World.start(scratch);
      await putBack(world, by);
      await lose(world, 'b');
      // The earlier one is the volume by no word: the later one is named.
      await assert.rejects(order(world, 'cancel', true), {
        message:
          /^pool other has a later copy of volume \S+ in its trash than pool data has: kubectl holdfast trash restore \S+ --node a --node-is-lost b \(.*--pool-is-lost POOL\)\. /,
      });
      await order(world, 'restore', false);
      assert.deepEqual(await usable(world), [['a', 'other', 2]]);
      assert.equal((await movesOf(world.node('a').pools.get('data')).stateOf(id)).why, 'old');
    });
  }

  test('on a disk that was put back keeps a later one in the trash from no restore, where root decides', async () => {
    using scratch = new Scratch('earlier');
    await using world = await World.start(scratch);
    await putBack(world, 'another pool');
    const { mover, name: nodeId, objects, pools } = world.node('a');
    const root = adminService({ nodeId, pools, objects, mover });
    const restored = await root.restore({ id, lostNode: 'b' }, { deadline: undefined, note: () => undefined });
    assert.equal(restored.pool, 'other');
  });

  test('on a disk that was put back has no other node give its copy up, if a later one is in the trash', async () => {
    using scratch = new Scratch('earlier');
    await using world = await World.start(scratch);
    await putBack(world, 'another pool');
    await world.whileDown('b', () => {
      world.disks.remove('b', 'data');
      world.disks.removeOwn('b');
    });
    await world.fleet.told();
    for (const evenSo of [false, true]) {
      await assert.rejects(world.fleet.command({ change: 'cancel', volume: id, node: 'a', evenSo }), {
        message: /^node a has a later copy of volume \S+ in its trash: restore that one, with --node a; /,
      });
    }
    assert.equal((await world.node('b').mover.copies.noteOf(id))?.generation, 0);
  });

  test('on a disk that was put back keeps a later one in the trash from no restore, where the disk of the other node is lost', async () => {
    using scratch = new Scratch('earlier');
    await using world = await World.start(scratch);
    await putBack(world, 'another node');
    await world.whileDown('b', () => {
      world.configured.get('b')?.delete('data');
      world.disks.takeOut('b', 'data');
    });
    await world.fleet.told();
    await world.fleet.command({ change: 'restore', volume: id, node: 'a', lostPool: 'data' });
    assert.deepEqual(await usable(world), [['a', 'other', 2]]);
  });
});
