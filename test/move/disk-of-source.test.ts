import assert from 'node:assert/strict';
import { renameSync } from 'node:fs';
import { describe, mock, test } from 'node:test';
import { DataLoss } from '../../src/volume/errors.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { id } from './histories/place.ts';
import { World } from './histories/world.ts';
import { movesOf } from './two-pools.ts';

describe('a volume whose disk was put into the node that it was moving to', () => {
  test('is not called arrived, is given up by no order to finish, and its copy goes by a second word', async () => {
    using scratch = new Scratch('disk-of-source');
    await using world = await World.start(scratch);
    mock.method(movesOf(world.node('a').pools.get('data')), 'give', async () => {
      throw new DataLoss('a disk fails');
    });
    await world.fleet.command({ change: 'move', volume: id, node: 'b', toPool: 'data' });
    await eventually(() => assert.notEqual(world.node('b').sight(id).job.state, 'running'));
    await world.startPod();
    world.writePod();
    await world.stopPod();
    await world.whileDown('a', () => {
      world.configured.get('a')?.delete('data');
      world.disks.takeOut('a', 'data');
    });
    await world.whileDown('b', () => {
      world.disks.remove('b', 'other');
      renameSync(`${world.disks.pathOf('a', 'data')}.out`, world.disks.pathOf('b', 'other'));
      world.disks.forgetId('b', 'other');
    });
    await world.fleet.told();
    for (const evenSo of [false, true]) {
      await assert.rejects(world.fleet.command({ change: 'finish', volume: id, node: 'b', lostPool: 'data', evenSo }), {
        message: /is on node b by now: .* move cancel \S+ --node b --even-so/,
      });
    }
    assert.equal((await world.node('a').mover.copies.noteOf(id))?.generation ?? 0, 0);
    const cancel = (evenSo: boolean) => world.fleet.command({ change: 'cancel', volume: id, node: 'b', evenSo });
    await assert.rejects(cancel(false), { message: /is in pool other of this node .* copy in pool data .* --even-so/ });
    await cancel(true);
    assert.equal(await movesOf(world.node('b').pools.get('data')).comingNote(id), undefined);
    assert.deepEqual(
      (await world.usable()).map(({ node, pool, version }) => [node, pool, version]),
      [['b', 'other', 2]],
    );
  });
});
