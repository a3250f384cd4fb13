import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { id, type PoolName } from './histories/place.ts';
import { World } from './histories/world.ts';

/** All of the volume waits on node b, and node a, which has handed nothing over, has lost the disk of that pool. */
async function lostAfterCopy(world: World, pool: PoolName): Promise<void> {
  world.refuseGiving({ node: 'a', pool });
  await world.fleet.command({ change: 'move', volume: id, node: 'b' });
  await eventually(() => assert.notEqual(world.node('b').sight(id).job.whole, undefined));
  await world.whileDown('a', () => {
    world.configured.get('a')?.delete(pool);
    world.disks.takeOut('a', pool);
  });
}

async function putBack(world: World, pool: PoolName): Promise<void> {
  await world.whileDown('a', () => {
    world.disks.putIn('a', pool);
    world.configured.get('a')?.add(pool);
  });
  await world.fleet.keep();
}

const finish = (world: World, lostPool: PoolName, evenSo = false) =>
  world.fleet.command({ change: 'finish', volume: id, node: 'b', lostPool, evenSo });

const noteOf = (world: World, node: 'a' | 'b') => world.node(node).mover.copies.noteOf(id);

describe('a volume that has come as a whole, whose first node is there without the disk', () => {
  test('is there once that node has given the copies of that disk up, though it has an earlier one in the trash of another pool', async () => {
    using scratch = new Scratch('first-disk-lost');
    await using world = await World.start(scratch);
    await world.node('a').mover.start(id, 'other', undefined);
    await world.rest(10_000);
    await lostAfterCopy(world, 'other');
    await assert.rejects(finish(world, 'data'), { message: /from pool other of node a, and not from pool data/ });
    await finish(world, 'other');
    const [usable, ...others] = await world.usable();
    assert.deepEqual([usable?.node, usable?.version, others], ['b', 1, []]);
    const given = await noteOf(world, 'a');
    assert.equal(given?.at, 'b');
    assert.ok((given?.generation ?? 0) > 1_000_000);
    assert.ok((usable?.generation ?? 0) > (given?.generation ?? 0));
    await putBack(world, 'other');
    assert.deepEqual(
      (await world.usable()).map(({ node }) => node),
      ['b'],
    );
    // It may go there again.
    world.record('b');
    await world.fleet.command({ change: 'move', volume: id, node: 'a', toPool: 'other' });
    await world.rest(10_000);
    assert.deepEqual(
      (await world.usable()).map(({ node, pool, version }) => [node, pool, version]),
      [['a', 'other', 1]],
    );
  });

  test('stays as it is without a second word, on both nodes, if its fence had ended', async () => {
    using scratch = new Scratch('first-disk-lost');
    await using world = await World.start(scratch);
    await lostAfterCopy(world, 'data');
    const path = scratch.join('data-b', 'moves', `${id}.json`);
    await world.whileDown('b', () => {
      const job = JSON.parse(readFileSync(path, 'utf8')) as { whole: object };
      const whole = { ...job.whole, fenceEndedAt: new Date().toISOString() };
      writeFileSync(path, JSON.stringify({ ...job, whole }));
    });
    await assert.rejects(finish(world, 'data'), {
      message: /may have been used again on node a, .* had ended by .* --even-so/,
    });
    assert.equal((await noteOf(world, 'a'))?.generation, 0);
    await finish(world, 'data', true);
    assert.equal((await world.usable()).length, 1);
  });

  test('stays as it is without a second word, if its first node has had a later copy since', async () => {
    using scratch = new Scratch('first-disk-lost');
    await using world = await World.start(scratch);
    await lostAfterCopy(world, 'data');
    const later = { format: 1, generation: 3 };
    await world.whileDown('a', () => {
      mkdirSync(scratch.join('data-a', 'moved'), { recursive: true });
      writeFileSync(scratch.join('data-a', 'moved', `${id}.json`), JSON.stringify(later));
    });
    await assert.rejects(finish(world, 'data'), {
      message: /from node a, which has had a later copy since.* --even-so/,
    });
    assert.equal((await noteOf(world, 'a'))?.generation, 3);
    await finish(world, 'data', true);
    await putBack(world, 'data');
    assert.deepEqual(
      (await world.usable()).map(({ node }) => node),
      ['b'],
    );
  });

  test('is there also if it had been restored on that node from the trash of another pool than it had moved to', async () => {
    using scratch = new Scratch('first-disk-lost');
    await using world = await World.start(scratch);
    await world.node('a').mover.start(id, 'other', undefined);
    await world.rest(10_000);
    await world.whileDown('a', () => {
      world.disks.takeOut('a', 'other');
      rmSync(scratch.join('data-a', 'pools', 'other.id'));
    });
    await world.fleet.told();
    await world.fleet.command({ change: 'restore', volume: id, node: 'a', lostPool: 'other' });
    await lostAfterCopy(world, 'data');
    await finish(world, 'data');
    assert.deepEqual(
      (await world.usable()).map(({ node }) => node),
      ['b'],
    );
  });

  test('stays as it is while a node is away, or its disk is there', async () => {
    using scratch = new Scratch('first-disk-lost');
    await using world = await World.start(scratch);
    await lostAfterCopy(world, 'data');
    await world.down('c');
    await world.fleet.told();
    await assert.rejects(finish(world, 'data'), { message: /no node that is there has it, and c is away/ });
    await world.up('c');
    await putBack(world, 'data');
    await assert.rejects(finish(world, 'data'), { message: /is on node a by now/ });
  });
});
