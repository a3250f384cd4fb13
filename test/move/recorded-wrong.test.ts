import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { id, type Place } from './histories/place.ts';
import { World } from './histories/world.ts';
import { movesOf } from './two-pools.ts';

describe('a copy in the trash, by a second word although a PersistentVolume names a node that has nothing of the volume', () => {
  test('is the volume, and a disk of that node which comes back has an earlier copy, though its notes are lost', async () => {
    using scratch = new Scratch('recorded-wrong');
    await using world = await World.start(scratch);
    const move = async (node: 'a' | 'b') => {
      // A node that has just started may not have told all yet.
      await eventually(
        async () => void (await world.fleet.command({ change: 'move', volume: id, node, toPool: 'data' })),
      );
      await world.rest(10_000);
      await world.fleet.told();
    };
    await move('b');
    let saved = '';
    await world.whileDown('b', () => {
      saved = world.disks.save('b', 'data');
    });
    await move('a');
    await world.node('a').mover.start(id, 'other', undefined);
    await world.rest(10_000);
    await world.whileDown('b', () => {
      for (const name of ['b', 'data-b']) rmSync(scratch.join(name), { recursive: true });
    });
    await world.whileDown('a', () => {
      world.configured.get('a')?.delete('other');
      world.disks.takeOut('a', 'other');
    });
    world.record('b');
    await world.fleet.told();
    const restore = (evenSo: boolean) =>
      world.fleet.command({ change: 'restore', volume: id, node: 'a', lostPool: 'other', evenSo });
    await assert.rejects(restore(false), { message: /may be on node b, .* --even-so/ });
    await restore(true);
    const nodes = async () => (await world.usable()).map(({ node }) => node);
    assert.deepEqual(await nodes(), ['a']);
    await world.whileDown('b', () => {
      rmSync(scratch.join('data-b'), { recursive: true });
      world.disks.bringBack('b', 'data', saved);
    });
    await eventually(async () => {
      await world.fleet.keep();
      assert.deepEqual(await nodes(), ['a']);
    });
  });
});

describe('a cancel by which a copy becomes the volume, though a PersistentVolume names a node that has nothing of the volume', () => {
  const from = { node: 'a', pool: 'data' } as const;
  const mayBeOnC = /may be on node c, which its PersistentVolume names, .* although that is so: --even-so\.$/;

  /** Pool data of node a has handed the volume over, and it has not come yet. */
  async function handedOver(world: World, to: Place): Promise<void> {
    world.refuseCommits(to);
    if (to.node === 'a') await world.node('a').mover.start(id, to.pool, undefined);
    else await world.fleet.command({ change: 'move', volume: id, node: to.node, toPool: to.pool });
    await eventually(async () =>
      assert.equal((await movesOf(world.node('a').pools.get('data')).stateOf(id)).why, 'given'),
    );
    await world.fleet.told();
    world.record('c');
  }

  const usable = async (world: World) => (await world.usable()).map(({ node, pool }) => ({ node, pool }));

  for (const isLost of [true, false]) {
    test(`takes a second word, ${isLost ? 'if the other node is lost' : 'at the other node'}`, async () => {
      using scratch = new Scratch('recorded-wrong');
      await using world = await World.start(scratch);
      await handedOver(world, { node: 'b', pool: 'data' });
      if (isLost) {
        await world.down('b');
        world.fleet.forget('b');
        await world.fleet.told();
      }
      const where = isLost ? ({ node: 'a', lostNode: 'b' } as const) : ({ node: 'b' } as const);
      const wishes = { change: 'cancel', volume: id, json: false, ...where } as const;
      const cancel = (evenSo: boolean) => world.fleet.command({ ...wishes, evenSo });
      await assert.rejects(cancel(false), mayBeOnC);
      // The pod waits where it says.
      assert.match(await cancel(true), /If its PersistentVolume names .* move --resume CLAIM/);
      assert.deepEqual(await usable(world), [from]);
    });
  }

  test('takes a second word within a node, and is noted: a disk of that node which comes back has an earlier copy', async () => {
    using scratch = new Scratch('recorded-wrong');
    await using world = await World.start(scratch);
    let saved = '';
    await world.whileDown('a', () => {
      saved = world.disks.save('a', 'data');
    });
    await handedOver(world, { node: 'a', pool: 'other' });
    const cancel = (evenSo: boolean) => world.fleet.command({ change: 'cancel', volume: id, node: 'a', evenSo });
    await assert.rejects(cancel(false), mayBeOnC);
    await cancel(true);
    assert.deepEqual(await usable(world), [from]);
    await world.whileDown('c', () => {
      world.disks.bringBack('c', 'data', saved);
      world.disks.forgetId('c', 'data');
    });
    await eventually(async () => {
      await world.fleet.keep();
      assert.deepEqual(await usable(world), [from]);
    });
  });

  test('passes over nothing else by that word', async () => {
    using scratch = new Scratch('recorded-wrong');
    await using world = await World.start(scratch);
    world.refuseSettling(from);
    await world.node('a').mover.start(id, 'other', undefined);
    await eventually(async () => assert.equal((await usable(world))[0]?.pool, 'other'));
    await world.whileDown('a', () => {
      world.configured.get('a')?.delete('other');
      world.disks.takeOut('a', 'other');
    });
    await world.fleet.told();
    world.record('c');
    const cancel = (evenSo: boolean) => world.fleet.command({ change: 'cancel', volume: id, node: 'a', evenSo });
    await assert.rejects(cancel(false), mayBeOnC);
    await assert.rejects(
      cancel(true),
      /has come to pool other at .* --even-so\. But .* PersistentVolume names node c, .* counts for that alone/,
    );
    assert.deepEqual(await usable(world), []);
    world.record('a');
    await assert.rejects(cancel(false), /has come to pool other at .* --even-so\.$/);
    await cancel(true);
    assert.deepEqual(await usable(world), [from]);
  });
});
