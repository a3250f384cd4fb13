import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { snapshotIdFor } from '../../src/volume/id.ts';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import { eventually } from '../support/eventually.ts';
import { LinkedNode } from './support/fleet.ts';
import {
  controllerOf,
  followed,
  requireUnavailable,
  requireWhole,
  snapshotsIn,
  withSnapshots,
} from './support/fleet-snapshots.ts';
import { forgottenLongAgo } from './support/forgotten.ts';
import { created, everything, MovingFleet, moved, movesOf, start, started } from './support/moving-fleet.ts';
import { Viewer } from './support/viewer.ts';

const more = '&with-snapshots=true';

/** The volume moves to a third node, without its snapshots. */
async function goOn(fleet: MovingFleet, viewer: Viewer, id: string): Promise<void> {
  fleet.nodes.set('node-c', LinkedNode.prepare(fleet.api, 'node-c', [controllerOf(fleet)]));
  fleet.api.known.csiNodes.add('node-c');
  await fleet.startNode('node-c');
  await started(fleet, viewer, id, 'node-c');
  await eventually(async () => {
    const moves = await movesOf(fleet, viewer, id);
    const isThere = moves.some(({ node, state }) => node === 'node-c' && state === 'done');
    assert.ok(isThere, JSON.stringify(moves));
  });
}

describe('snapshots that follow their volume to another node, brokered by the controller', () => {
  let command: DriverCommand;
  before(async () => {
    command = await buildDriver();
  });
  after(() => command[Symbol.dispose]());

  test('there and back: each is listed once, has its bytes, and its calls follow it', async () => {
    await using fleet = await MovingFleet.start(command, 'none', 'xfs');
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    const digests = await withSnapshots(fleet, 'node-a', id, ['old', 'young']);
    await eventually(async () => {
      const dry = await start(fleet, viewer, id, 'node-b', `&dry-run=true${more}`);
      assert.equal(dry.status, 200, dry.problems);
      assert.match(dry.result, /"following":\{"moving":\[\{"id":"snap-[^"]+","name":"young"/);
    });
    for (const [from, to] of [
      ['node-a', 'node-b'],
      ['node-b', 'node-a'],
    ] as const) {
      await started(fleet, viewer, id, to, more);
      await followed(fleet, viewer, id);
      assert.deepEqual([...snapshotsIn(fleet, from), ...snapshotsIn(fleet, to)], [...digests.keys()].sort());
      await requireWhole(fleet, to, digests);
    }
    // The same order again finds nothing that it could move.
    await eventually(async () => {
      const { problems } = await start(fleet, viewer, id, 'node-a', more);
      assert.match(problems, /is on node node-a already, and no other node has a snapshot of it/);
    });
    using client = controllerOf(fleet).connect();
    for (const snapshot_id of digests.keys()) await client.controller.DeleteSnapshot({ snapshot_id });
    assert.deepEqual([...snapshotsIn(fleet, 'node-a'), ...snapshotsIn(fleet, 'node-b')], []);
  });

  test('a node that is away keeps no calls from them: the node that made them says where they are', async () => {
    await using fleet = await MovingFleet.start(command, 'none', 'xfs');
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    const digests = await withSnapshots(fleet, 'node-a', id, ['old', 'young']);
    await started(fleet, viewer, id, 'node-b', more);
    await followed(fleet, viewer, id);
    // A controller that starts lists them.
    fleet.api.known.csiNodes.add('node-c');
    await controllerOf(fleet).kill();
    await fleet.startController();
    for (const node of ['node-a', 'node-b']) await controllerOf(fleet).logged('inventory complete', { node });
    using client = controllerOf(fleet).connect();
    const none = snapshotIdFor('node-a', 'none');
    await eventually(() =>
      assert.rejects(client.controller.GetSnapshot({ snapshot_id: none }), /node-c is away since/),
    );
    for (const snapshot_id of digests.keys()) {
      const { snapshot } = await client.controller.GetSnapshot({ snapshot_id });
      assert.equal(snapshot?.snapshot_id, snapshot_id);
      await client.controller.DeleteSnapshot({ snapshot_id });
    }
    assert.deepEqual([...snapshotsIn(fleet, 'node-a'), ...snapshotsIn(fleet, 'node-b')], []);
  });

  test('calls for a snapshot are never answered that there is none, and a deletion leaves none, whenever it comes', async () => {
    await using fleet = await MovingFleet.start(command, 'none', 'xfs');
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    const names = Array.from({ length: 6 }, (_, at) => `s${at}`);
    const digests = await withSnapshots(fleet, 'node-a', id, names);
    const [deleted = ''] = digests.keys();
    await started(fleet, viewer, id, 'node-b', more);
    using client = controllerOf(fleet).connect();
    let isEnded = false;
    const asking = [...digests.keys()]
      .filter((each) => each !== deleted)
      .map(async (snapshot_id) => {
        while (!isEnded) {
          await client.controller.GetSnapshot({ snapshot_id }).catch(requireUnavailable);
          const listed = await client.controller.ListSnapshots({ snapshot_id }).catch(requireUnavailable);
          if (listed !== undefined) assert.equal(listed.entries.length, 1, snapshot_id);
        }
      });
    await eventually(async () => void (await client.controller.DeleteSnapshot({ snapshot_id: deleted })));
    try {
      await followed(fleet, viewer, id);
    } finally {
      isEnded = true;
      await Promise.all(asking);
    }
    digests.delete(deleted);
    assert.deepEqual([snapshotsIn(fleet, 'node-a'), snapshotsIn(fleet, 'node-b')], [[], [...digests.keys()].sort()]);
    await requireWhole(fleet, 'node-b', digests);
  });

  test('are cancelled where they come to, and follow by the same order, where the volume is already', async () => {
    await using fleet = await MovingFleet.start(command, 'none', 'xfs');
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    const digests = await withSnapshots(fleet, 'node-a', id, ['old', 'young']);
    await started(fleet, viewer, id, 'node-b', `&limit=256Ki${more}`);
    await eventually(async () => {
      const moves = await movesOf(fleet, viewer, id);
      assert.ok(
        moves.some(({ snapshots }) => BigInt(snapshots?.doneBytes ?? 0n) > 0n),
        JSON.stringify(moves),
      );
    }, 120_000);
    const cancelled = await viewer.post(controllerOf(fleet), `/v1/moves/cancel?output=json&volume=${id}`);
    assert.equal(cancelled.status, 200, cancelled.problems);
    assert.deepEqual([snapshotsIn(fleet, 'node-a'), snapshotsIn(fleet, 'node-b')], [[...digests.keys()].sort(), []]);
    await requireWhole(fleet, 'node-a', digests);
    await started(fleet, viewer, id, 'node-b', more);
    await eventually(() =>
      assert.deepEqual([snapshotsIn(fleet, 'node-a'), snapshotsIn(fleet, 'node-b')], [[], [...digests.keys()].sort()]),
    );
    await requireWhole(fleet, 'node-b', digests);
  });

  test('go on after both nodes and the controller have started again', async () => {
    await using fleet = await MovingFleet.start(command, 'none', 'xfs');
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    const digests = await withSnapshots(fleet, 'node-a', id, ['old', 'young']);
    await started(fleet, viewer, id, 'node-b', `&limit=4Mi${more}`);
    await eventually(async () => {
      const moves = await movesOf(fleet, viewer, id);
      assert.ok(
        moves.some(({ snapshots }) => snapshots?.state === 'running'),
        JSON.stringify(moves),
      );
    });
    await fleet.node('node-a').driver.kill();
    await fleet.node('node-b').driver.kill();
    await fleet.controller?.kill();
    await fleet.startController();
    await fleet.startNode('node-b');
    await fleet.startNode('node-a');
    await followed(fleet, viewer, id);
    await requireWhole(fleet, 'node-b', digests);
    assert.deepEqual(snapshotsIn(fleet, 'node-a'), []);
  });

  test('one that was handed over to a node that is lost is the snapshot where it was, by that word', async () => {
    await using fleet = await MovingFleet.start(command, 'none', 'xfs');
    const api = fleet.api.client(fleet.scratch);
    await using _api = { [Symbol.asyncDispose]: async () => api.close() };
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    const digests = await withSnapshots(fleet, 'node-a', id, ['old', 'young']);
    await started(fleet, viewer, id, 'node-b');
    await moved(fleet, viewer, id);
    await fleet.node('node-b').driver.stop();
    await fleet.startNode('node-b', 'before move/complete 1');
    await eventually(async () => {
      await start(fleet, viewer, id, 'node-b', more);
      assert.ok(fleet.node('node-b').driver.hasEnded);
    });
    using client = controllerOf(fleet).connect();
    const cancel = () =>
      viewer.post(controllerOf(fleet), `/v1/moves/cancel?output=json&volume=${id}&node=node-a&node-is-lost=node-b`);
    assert.match((await cancel()).problems, /is not known to be lost/);
    await forgottenLongAgo(api, 'node-b', cancel);
    await eventually(async () => {
      const { problems, status } = await cancel();
      assert.ok(status === 200 || /does not move|is not moving/.test(problems), problems);
    });
    await requireWhole(fleet, 'node-a', digests);
    for (const snapshot_id of digests.keys()) await client.controller.DeleteSnapshot({ snapshot_id });
    assert.deepEqual(snapshotsIn(fleet, 'node-a'), []);
  });

  test('one that had arrived on that node, which has not said so, goes there once that is back', async () => {
    await using fleet = await MovingFleet.start(command, 'none', 'xfs');
    const api = fleet.api.client(fleet.scratch);
    await using _api = { [Symbol.asyncDispose]: async () => api.close() };
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    const digests = await withSnapshots(fleet, 'node-a', id, ['old', 'young']);
    await started(fleet, viewer, id, 'node-b');
    await moved(fleet, viewer, id);
    await fleet.node('node-b').driver.stop();
    await fleet.startNode('node-b', 'after move/commit 1');
    await eventually(async () => {
      await start(fleet, viewer, id, 'node-b', more);
      assert.ok(fleet.node('node-b').driver.hasEnded);
    });
    assert.equal(snapshotsIn(fleet, 'node-b').length, 1);
    const cancel = () =>
      viewer.post(controllerOf(fleet), `/v1/moves/cancel?output=json&volume=${id}&node=node-a&node-is-lost=node-b`);
    const forgotten = await forgottenLongAgo(api, 'node-b', cancel);
    await eventually(async () => {
      const { problems, status } = await cancel();
      assert.ok(status === 200 || /does not move|is not moving/.test(problems), problems);
    });
    await forgotten.change((notes) => notes.delete('node-b'));
    await fleet.startNode('node-b');
    await eventually(() => assert.deepEqual(snapshotsIn(fleet, 'node-b'), []), 90_000);
    await requireWhole(fleet, 'node-a', digests);
    // They follow it again.
    await eventually(async () => {
      const { problems, status } = await start(fleet, viewer, id, 'node-b', more);
      assert.equal(status, 200, problems);
    });
    await followed(fleet, viewer, id);
    await requireWhole(fleet, 'node-b', digests);
  });

  for (const [words, isCancelled, hasGoneOn] of [
    [', whose copy goes once that is back', false, false],
    [', also once the order is cancelled', true, false],
    [', also once the volume has gone on to a third one', true, true],
  ] as const) {
    test(`one of which all has come becomes the snapshot there, if its first node is lost${words}`, async () => {
      await using fleet = await MovingFleet.start(command, 'none', 'xfs');
      const api = fleet.api.client(fleet.scratch);
      await using _api = { [Symbol.asyncDispose]: async () => api.close() };
      const viewer = new Viewer(fleet.api, 'operator', everything);
      const id = await created(fleet);
      const digests = await withSnapshots(fleet, 'node-a', id, ['old', 'young']);
      await started(fleet, viewer, id, 'node-b');
      await moved(fleet, viewer, id);
      await fleet.node('node-b').driver.stop();
      await fleet.startNode('node-b', 'before move/complete 1');
      await eventually(async () => {
        await start(fleet, viewer, id, 'node-b', more);
        assert.ok(fleet.node('node-b').driver.hasEnded);
      });
      await fleet.node('node-a').driver.kill();
      await fleet.startNode('node-b');
      const finish = () =>
        viewer.post(controllerOf(fleet), `/v1/moves/finish?output=json&volume=${id}&node=node-b&node-is-lost=node-a`);
      await eventually(async () => assert.match((await finish()).problems, /is not known to be lost/));
      const forgotten = await forgottenLongAgo(api, 'node-a', finish);
      const cancel = () =>
        viewer.post(controllerOf(fleet), `/v1/moves/cancel?output=json&volume=${id}&node=node-b&node-is-lost=node-a`);
      for (const order of isCancelled ? [cancel, finish] : [finish]) {
        if (order === finish && hasGoneOn) await goOn(fleet, viewer, id);
        await eventually(async () => {
          const { problems, status } = await order();
          assert.equal(status, 200, problems);
        });
      }
      const nothingLeft = hasGoneOn ? /is on node node-c by now/ : /nor is a snapshot of it that has come as a whole/;
      assert.match((await finish()).problems, nothingLeft);
      const found = snapshotsIn(fleet, 'node-b');
      assert.equal(found.length, 1);
      const [finished = ''] = found;
      const only = new Map([...digests].filter(([snapshot]) => finished.startsWith(snapshot)));
      assert.equal(only.size, 1, finished);
      await requireWhole(fleet, 'node-b', only);
      if (hasGoneOn) return;
      await forgotten.change((notes) => notes.delete('node-a'));
      await fleet.startNode('node-a');
      if (isCancelled) {
        await eventually(async () => {
          const { problems, status } = await start(fleet, viewer, id, 'node-b', more);
          assert.equal(status, 200, problems);
        });
      }
      // Its copy goes, and the other one follows.
      await followed(fleet, viewer, id);
      assert.deepEqual(snapshotsIn(fleet, 'node-a'), []);
      await requireWhole(fleet, 'node-b', digests);
    });
  }

  for (const isCancelled of [true, false]) {
    const words = isCancelled ? 'is where it was by a cancel' : 'follows by the same order, though it is in no list';
    test(`one that was handed over to a node which has lost its notes of that ${words}`, async () => {
      await using fleet = await MovingFleet.start(command, 'none', 'xfs');
      const viewer = new Viewer(fleet.api, 'operator', everything);
      const id = await created(fleet);
      const digests = await withSnapshots(fleet, 'node-a', id, ['only']);
      await started(fleet, viewer, id, 'node-b');
      await moved(fleet, viewer, id);
      await fleet.node('node-b').driver.stop();
      await fleet.startNode('node-b', 'before move/complete 1');
      await eventually(async () => {
        await start(fleet, viewer, id, 'node-b', more);
        assert.ok(fleet.node('node-b').driver.hasEnded);
      });
      const { scratch } = fleet.node('node-b');
      for (const notes of ['snapshot-moves', 'moves']) rmSync(scratch.join('data', notes), { recursive: true });
      await fleet.startNode('node-b');
      await eventually(async () => {
        const { problems, status } = isCancelled
          ? await viewer.post(controllerOf(fleet), `/v1/moves/cancel?output=json&volume=${id}`)
          : await start(fleet, viewer, id, 'node-b', more);
        assert.equal(status, 200, problems);
      });
      if (!isCancelled) await followed(fleet, viewer, id);
      const there = [...digests.keys()];
      const expected = isCancelled ? [there, []] : [[], there];
      assert.deepEqual([snapshotsIn(fleet, 'node-a'), snapshotsIn(fleet, 'node-b')], expected);
      await requireWhole(fleet, isCancelled ? 'node-a' : 'node-b', digests);
    });
  }

  test('a node whose driver takes none along refuses the order, and nothing moves', async () => {
    await using fleet = await MovingFleet.start(command, 'none', 'xfs');
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    const digests = await withSnapshots(fleet, 'node-a', id, ['old']);
    for (const name of ['node-b', 'node-a']) {
      fleet.environments.set(name, { HOLDFAST_MOVE_SNAPSHOTS: 'false' });
      await fleet.node(name).driver.stop();
      await fleet.startNode(name);
      await eventually(async () => {
        const { problems } = await start(fleet, viewer, id, 'node-b', more);
        assert.match(problems, /HOLDFAST_MOVE_SNAPSHOTS=true/);
      });
      fleet.environments.delete(name);
    }
    assert.deepEqual(await movesOf(fleet, viewer, id), []);
    await requireWhole(fleet, 'node-a', digests);
  });
});
