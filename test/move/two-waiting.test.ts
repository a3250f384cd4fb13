import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { id, type NodeName } from './histories/place.ts';
import { World } from './histories/world.ts';

async function isWhole(world: World, node: NodeName): Promise<void> {
  await eventually(() => assert.notEqual(world.node(node).sight(id).job.whole, undefined));
}

const cancel = (world: World, node: NodeName, evenSo = false) =>
  world.fleet.command({ change: 'cancel', volume: id, node, evenSo });

/** All of an earlier state of the volume waits on node b, and all of the last one on node c, to which node a has handed it over. */
async function bothWait(world: World): Promise<void> {
  world.refuseGiving({ node: 'a', pool: 'data' });
  await world.fleet.command({ change: 'move', volume: id, node: 'b' });
  await isWhole(world, 'b');
  await world.down('b');
  await world.whileDown('a', () => undefined);
  await world.node('a').leavings.cancel(id, false);
  await world.startPod();
  world.writePod();
  await world.stopPod();
  world.refuseCommits({ node: 'c', pool: 'data' });
  await world.fleet.command({ change: 'move', volume: id, node: 'c', toPool: 'data' });
  await isWhole(world, 'c');
  await eventually(async () => assert.equal((await world.usable()).length, 0));
  await world.up('b');
  await world.rest(1_000);
  await world.fleet.told();
}

describe('two whole copies of a volume, on two nodes', () => {
  test('keep no command back by which the volume is where it was, if the disk of the later one is lost', async () => {
    using scratch = new Scratch('two-waiting');
    await using world = await World.start(scratch);
    await bothWait(world);
    await world.whileDown('c', () => {
      world.configured.get('c')?.delete('data');
      world.disks.takeOut('c', 'data');
    });
    await world.fleet.told();
    await assert.rejects(cancel(world, 'c', true), { message: /waits on node b.* --node b --even-so removes it/ });
    await assert.rejects(cancel(world, 'b'), { message: /waits on node c.* --node c --even-so removes it/ });
    await cancel(world, 'b', true);
    await world.fleet.told();
    assert.equal((await world.usable()).length, 0);
    await cancel(world, 'c');
    assert.deepEqual(
      (await world.usable()).map(({ node, version }) => [node, version]),
      [['a', 2]],
    );
  });

  for (const kept of ['b', 'c'] as const) {
    const which = kept === 'b' ? 'earlier' : 'later';
    test(`keep no command back by which the ${which} one is the volume, if the disk of their first node is lost`, async () => {
      using scratch = new Scratch('two-waiting');
      await using world = await World.start(scratch);
      await bothWait(world);
      await world.whileDown('a', () => {
        world.configured.get('a')?.delete('data');
        world.disks.takeOut('a', 'data');
      });
      await world.fleet.told();
      const other = kept === 'b' ? 'c' : 'b';
      const finish = (evenSo: boolean) =>
        world.fleet.command({ change: 'finish', volume: id, node: kept, lostPool: 'data', evenSo });
      for (const evenSo of [false, true]) {
        await assert.rejects(finish(evenSo), {
          message: new RegExp(`waits on node ${other}.* --node ${other} --even-so removes it`),
        });
      }
      await assert.rejects(cancel(world, other), {
        message: /may be the last copy, and stays|which volume .* leaves, is not in the configuration/,
      });
      await cancel(world, other, true);
      await world.fleet.told();
      if (kept === 'b') {
        await assert.rejects(finish(false), { message: /has handed it over to node c since.* --even-so/ });
      }
      await finish(kept === 'b');
      assert.deepEqual(
        (await world.usable()).map(({ node, version }) => [node, version]),
        [[kept, kept === 'b' ? 1 : 2]],
      );
    });
  }
});
