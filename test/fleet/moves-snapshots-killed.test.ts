import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { StepName } from '../../src/volume/step.ts';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import { eventually } from '../support/eventually.ts';
import {
  controllerOf,
  requireUnavailable,
  requireWhole,
  snapshotsIn,
  withSnapshots,
} from './support/fleet-snapshots.ts';
import { created, everything, MovingFleet, movesOf, start, started } from './support/moving-fleet.ts';
import { Viewer } from './support/viewer.ts';

const more = '&with-snapshots=true';
const names = ['node-a', 'node-b'];

/** The steps at each end of snapshots that follow their volume, with the pass at which its driver dies. */
const points: readonly (readonly [end: 'source' | 'target', StepName, number])[] = [
  ['target', 'move/note', 1],
  ['target', 'move/note', 2],
  ['target', 'move/draft', 1],
  ['target', 'move/progress', 1],
  ['target', 'move/progress', 2],
  ['target', 'move/progress', 3],
  ['target', 'move/whole', 1],
  ['target', 'move/generation', 1],
  ['target', 'move/complete', 1],
  ['target', 'move/commit', 1],
  ['target', 'move/generation', 2],
  ['target', 'move/note', 3],
  ['target', 'move/commit', 2],
  ['target', 'move/forget', 1],
  ['source', 'move/note', 1],
  ['source', 'move/fence', 1],
  ['source', 'move/generation', 1],
  ['source', 'move/give', 1],
  ['source', 'move/settle', 1],
  ['source', 'move/fence', 2],
  ['source', 'move/forget', 1],
];

describe('drivers and a controller that are killed while snapshots follow their volume to another node', () => {
  let command: DriverCommand;
  before(async () => {
    command = await buildDriver();
  });
  after(() => command[Symbol.dispose]());

  test('before and after each step of either end: each is whole, and there once, and they are where the volume is', async (t) => {
    await using fleet = await MovingFleet.start(command, 'none', 'xfs');
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    const digests = await withSnapshots(fleet, 'node-a', id, ['older', 'newer']);
    let [from, to] = ['node-a', 'node-b'];
    for (const [end, step, pass] of points) {
      for (const when of ['before', 'after'] as const) {
        await t.test(`${when} ${step} ${pass} at the ${end}`, async () => {
          await moveAlone(fleet, viewer, id, to);
          const dying = end === 'source' ? from : to;
          await killedIn(fleet, viewer, { id, to, dying, crash: `${when} ${step} ${pass}` });
          if (pass === 1 && when === 'after') {
            await fleet.controller?.kill();
            await fleet.startController();
          }
          await fleet.startNode(dying);
          await allFollowed(fleet, viewer, id, { from, to, ids: [...digests.keys()] });
          for (const [snapshot, digest] of digests) assert.equal(digestIn(fleet, to, snapshot), digest);
          [from, to] = [to, from];
        });
      }
    }
    await requireWhole(fleet, from, digests);
  });

  test('after each step, while a snapshot is deleted: it is nowhere once that has its answer, and the other one follows', async (t) => {
    await using fleet = await MovingFleet.start(command, 'none', 'xfs');
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    let [from, to] = ['node-a', 'node-b'];
    for (const [at, [end, step, pass]] of points.entries()) {
      await t.test(`after ${step} ${pass} at the ${end}`, async () => {
        const digests = await withSnapshots(fleet, from, id, [`kept-${at}`, `deleted-${at}`]);
        using client = controllerOf(fleet).connect();
        const { entries } = await client.controller.ListSnapshots({});
        const times = entries.map(({ snapshot }) => snapshot ?? assert.fail());
        // The newest one moves first.
        const [deleted] = times.sort((a, b) => secondsOf(b) - secondsOf(a)).map(({ snapshot_id }) => snapshot_id);
        if (deleted === undefined) assert.fail();
        await moveAlone(fleet, viewer, id, to);
        const dying = end === 'source' ? from : to;
        await killedIn(fleet, viewer, { id, to, dying, crash: `after ${step} ${pass}` });
        const removal = (async () => {
          for (;;) {
            const answer = await client.controller.DeleteSnapshot({ snapshot_id: deleted }).catch(requireUnavailable);
            if (answer !== undefined) return;
            await setTimeout(200);
          }
        })();
        await setTimeout(500);
        await fleet.startNode(dying);
        await removal;
        const kept = [...digests.keys()].filter((each) => each !== deleted);
        await allFollowed(fleet, viewer, id, { from, to, ids: kept });
        for (const snapshot of kept) {
          assert.equal(digestIn(fleet, to, snapshot), digests.get(snapshot));
          await client.controller.DeleteSnapshot({ snapshot_id: snapshot });
        }
        for (const name of names) assert.deepEqual(snapshotsIn(fleet, name), []);
        [from, to] = [to, from];
      });
    }
  });
});

function secondsOf({
  creation_time: time,
}: {
  readonly creation_time: { readonly seconds: bigint; readonly nanos: number } | null;
}) {
  return Number(time?.seconds ?? 0n) + (time?.nanos ?? 0) / 1e9;
}

/** Moves the volume, and none of its snapshots. */
async function moveAlone(fleet: MovingFleet, viewer: Viewer, id: string, to: string): Promise<void> {
  const began = new Date().toISOString();
  await started(fleet, viewer, id, to);
  await eventually(async () => {
    const moves = await movesOf(fleet, viewer, id);
    assert.ok(
      moves.some(({ node, startedAt, state }) => node === to && state === 'done' && startedAt > began),
      JSON.stringify(moves),
    );
  }, 60_000);
}

interface Killing {
  readonly id: string;
  readonly to: string;
  readonly dying: string;
  readonly crash: string;
}

/** Orders the snapshots to follow, until the driver of that node has died in it. */
async function killedIn(fleet: MovingFleet, viewer: Viewer, { crash, dying, id, to }: Killing): Promise<void> {
  await fleet.node(dying).driver.stop();
  await fleet.startNode(dying, crash);
  await eventually(async () => {
    const { driver } = fleet.node(dying);
    if (!driver.hasEnded) await start(fleet, viewer, id, to, more);
    assert.ok(driver.hasEnded);
  }, 60_000);
}

interface Place {
  readonly from: string;
  readonly to: string;
  readonly ids: readonly string[];
}

/** They are there alone, and nothing is on its way. One that was not noted yet is ordered again. */
async function allFollowed(fleet: MovingFleet, viewer: Viewer, id: string, { from, ids, to }: Place): Promise<void> {
  await eventually(async () => {
    await start(fleet, viewer, id, to, more);
    assert.deepEqual([snapshotsIn(fleet, from), snapshotsIn(fleet, to)], [[], [...ids].sort()]);
    for (const name of names) {
      const drafts = readdirSync(fleet.node(name).scratch.join('data', 'pools', 'default', 'tmp'));
      assert.deepEqual(drafts, [], name);
    }
    const moves = await movesOf(fleet, viewer, id);
    assert.ok(
      moves.every(({ snapshots, state }) => state !== 'running' && snapshots?.state !== 'running'),
      JSON.stringify(moves),
    );
  }, 120_000);
}

function digestIn(fleet: MovingFleet, node: string, snapshot: string): string {
  const path = fleet.node(node).scratch.join('data', 'pools', 'default', 'snapshots', snapshot, 'data');
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}
