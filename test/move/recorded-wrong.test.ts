import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { describe, test } from 'node:test';
import { Scratch } from '../support/scratch.ts';
import { id } from './histories/place.ts';
import { World } from './histories/world.ts';

describe('a copy in the trash, by a second word although a PersistentVolume names a node that has nothing of the volume', () => {
  test('is the volume, and a disk of that node which comes back has an earlier copy, though its notes are lost', async () => {
    using scratch = new Scratch('recorded-wrong');
    await using world = await World.start(scratch);
    const move = async (node: 'a' | 'b') => {
      await world.fleet.command({ change: 'move', volume: id, node, toPool: 'data' });
      await world.rest(10_000);
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
    await world.fleet.keep();
    assert.deepEqual(await nodes(), ['a']);
  });
});
