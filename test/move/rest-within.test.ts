import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { DataLoss } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { id } from './histories/place.ts';
import { World } from './histories/world.ts';
import { isWhole, movesOf } from './two-pools.ts';

const state = async (world: World) => (await movesOf(world.node('a').pools.get('data')).stateOf(id)).why;
const usable = async (world: World) => (await world.usable()).map(({ node, pool, version }) => [node, pool, version]);
const cancel = (world: World, evenSo = false) =>
  world.fleet.command({ change: 'cancel', volume: id, node: 'a', evenSo });

/** A move from pool data of node a to pool other there has failed, and has left all of a copy, or nothing. */
async function failedWithin(world: World, hasCome: boolean): Promise<void> {
  const [data, other] = ['data', 'other'].map((name) => movesOf(world.node('a').pools.get(name)));
  assert.ok(data !== undefined && other !== undefined);
  const refused = async () => {
    throw new DataLoss('a disk fails');
  };
  const failing = hasCome ? mock.method(data, 'give', refused) : mock.method(other, 'receive', refused);
  await world.node('a').mover.start(id, 'other', undefined);
  await eventually(() => assert.equal(world.node('a').sight(id).job.state, 'failed'));
  assert.equal(await isWhole(world.node('a').pools.get('other'), id), hasCome);
  failing.mock.restore();
}

/** The volume was handed over to node b then, which is installed again before the commit. */
async function handedOver(world: World, scratch: Scratch): Promise<void> {
  await world.startPod();
  world.writePod();
  await world.stopPod();
  world.refuseCommits({ node: 'b', pool: 'data' });
  await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
  await eventually(async () => assert.equal(await state(world), 'given'));
  await world.whileDown('b', () => {
    for (const name of ['b', 'b-other', 'data-b']) rmSync(scratch.join(name), { recursive: true, force: true });
  });
  await world.fleet.told();
}

describe('a volume that went to another node, and has left the rest of a failed move within its first one', () => {
  for (const hasCome of [false, true]) {
    const rest = hasCome ? 'a copy' : 'nothing';
    test(`is the volume again by one cancel, if that node is installed again: ${rest} has come within the first one`, async () => {
      using scratch = new Scratch('rest-within');
      await using world = await World.start(scratch);
      await failedWithin(world, hasCome);
      await handedOver(world, scratch);
      await cancel(world);
      assert.deepEqual(await usable(world), [['a', 'data', 2]]);
      // The same command again ends the failed one, and leaves nothing of it.
      await cancel(world);
      assert.equal(await isWhole(world.node('a').pools.get('other'), id), false);
      assert.deepEqual(await usable(world), [['a', 'data', 2]]);
    });
  }

  test('has nothing given up for it by that node if the first one refuses to have it again', async () => {
    using scratch = new Scratch('rest-within');
    await using world = await World.start(scratch);
    let saved = '';
    await world.whileDown('a', () => {
      saved = world.disks.save('a', 'data');
    });
    await failedWithin(world, false);
    await handedOver(world, scratch);
    await world.whileDown('a', () => world.disks.bringBack('a', 'data', saved));
    await world.fleet.told();
    await assert.rejects(cancel(world), { message: /an earlier copy of .* --even-so/ });
    assert.equal((await movesOf(world.node('b').pools.get('data')).noted(id)).generation, 0);
    await cancel(world, true);
    assert.deepEqual(await usable(world), [['a', 'data', 1]]);
  });
});
