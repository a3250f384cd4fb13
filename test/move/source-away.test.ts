import assert from 'node:assert/strict';
import { describe, mock, test } from 'node:test';
import { Unavailable } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { id } from './histories/place.ts';
import { World } from './histories/world.ts';
import { movesOf } from './two-pools.ts';

async function loseDisk(world: World): Promise<void> {
  await world.whileDown('a', () => {
    world.configured.get('a')?.delete('data');
    world.disks.takeOut('a', 'data');
  });
  await world.fleet.told();
}

const cancel = (world: World, evenSo: boolean) =>
  world.fleet.command({ change: 'cancel', volume: id, node: 'b', evenSo, json: false });

describe('the cancel of a move whose first node has the pool of the volume not in its configuration', () => {
  test('says that all of it has come before it removes that, and then not that the volume stays there', async () => {
    using scratch = new Scratch('source-away');
    await using world = await World.start(scratch);
    world.refuseCommits({ node: 'b', pool: 'data' });
    await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
    await eventually(async () =>
      assert.equal((await movesOf(world.node('a').pools.get('data')).stateOf(id)).why, 'given'),
    );
    await loseDisk(world);
    await assert.rejects(cancel(world, false), {
      code: 'FAILED_PRECONDITION',
      message:
        /all of volume .* may be the last copy, and stays.* move finish \S+ --node b --node-is-lost a;.* by --pool-is-lost data\. .* move cancel \S+ --node b --even-so\.$/,
    });
    assert.match(
      await cancel(world, true),
      /^The copy of .* that had come to pool data is removed\. Node a, .* has not shown/,
    );
  });

  test('says that a part can never become the volume', async () => {
    using scratch = new Scratch('source-away');
    await using world = await World.start(scratch);
    mock.method(movesOf(world.node('a').pools.get('data')), 'close', async () => {
      throw new Unavailable('a disk does not answer.');
    });
    await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
    await eventually(() => assert.match(world.node('b').sight(id).trouble ?? '', /a disk does not answer/));
    await loseDisk(world);
    await assert.rejects(cancel(world, false), {
      code: 'UNAVAILABLE',
      message: /not in the configuration .* Only a part of volume .* --even-so removes it/,
    });
    await cancel(world, true);
  });

  test('says that the volume stays where it was seen', async () => {
    using scratch = new Scratch('source-away');
    await using world = await World.start(scratch);
    world.refuseGiving({ node: 'a', pool: 'data' });
    await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
    await eventually(() => assert.notEqual(world.node('b').sight(id).job.whole, undefined));
    assert.match(await cancel(world, false), /stays on node a, in pool data/);
  });
});
