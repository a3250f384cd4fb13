import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { id } from './histories/place.ts';
import { World } from './histories/world.ts';
import { isWhole, movesOf } from './two-pools.ts';

describe('a node that has lost its own disk between the hand-over of a volume and its commit', () => {
  test('removes what has come by a second word, and the volume is where it was', async () => {
    using scratch = new Scratch('own');
    await using world = await World.start(scratch);
    const { fleet } = world;
    world.refuseCommits({ node: 'b', pool: 'data' });
    await fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
    const { pool } = world.node('a');
    await eventually(async () => assert.equal((await movesOf(pool).stateOf(id)).why, 'given'));
    await world.whileDown('b', () => world.disks.removeOwn('b'));
    await fleet.told();
    const isThere = () => isWhole(world.node('b').pool, id);
    assert.ok(await isThere());
    await assert.rejects(fleet.command({ change: 'cancel', volume: id, node: 'a' }));
    await assert.rejects(
      fleet.command({ change: 'cancel', volume: id, node: 'b' }),
      /from a move that this node knows nothing of, as its own disk was lost.*--even-so/,
    );
    assert.ok(await isThere());
    await fleet.command({ change: 'cancel', volume: id, node: 'b', evenSo: true });
    assert.ok(!(await isThere()));
    await fleet.command({ change: 'cancel', volume: id, node: 'a' });
    assert.deepEqual(
      (await world.usable()).map(({ node, version }) => [node, version]),
      [['a', 1]],
    );
  });
});
