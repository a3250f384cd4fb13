import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import type { StepName } from '../../src/volume/step.ts';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import { eventually } from '../support/eventually.ts';
import { created, everything, MovingFleet, movesOf, start, use } from './support/moving-fleet.ts';
import { Viewer } from './support/viewer.ts';

describe('drivers and a controller that are killed while a volume moves between nodes', () => {
  let command: DriverCommand;
  before(async () => {
    command = await buildDriver();
  });
  after(() => command[Symbol.dispose]());

  /** The steps at each end, with the pass at which its driver dies. */
  const points: readonly (readonly [end: 'source' | 'target', StepName, number])[] = [
    ['target', 'move/note', 1],
    ['target', 'move/draft', 1],
    ['target', 'move/progress', 1],
    ['target', 'move/progress', 2],
    ['target', 'move/progress', 4],
    ['target', 'move/generation', 1],
    ['target', 'move/complete', 1],
    ['target', 'move/commit', 1],
    ['target', 'move/generation', 2],
    ['target', 'move/forget', 1],
    ['source', 'move/note', 1],
    ['source', 'move/fence', 1],
    ['source', 'move/generation', 1],
    ['source', 'move/give', 1],
    ['source', 'move/settle', 1],
    ['source', 'move/forget', 1],
  ];

  test('killed before and after each step of either end, and the controller with it: one whole copy', async (t) => {
    await using fleet = await MovingFleet.start(command);
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    let [from, to] = ['node-a', 'node-b'];
    /** The note of a node, by which it has the volume, or has handed it over. */
    const noteOf = (name: string) => {
      const path = `${fleet.node(name).driver.dataDirectory}/moved/${id}.json`;
      return z.object({ generation: z.int(), at: z.string().optional() }).parse(JSON.parse(readFileSync(path, 'utf8')));
    };
    for (const [end, step, pass] of points) {
      for (const when of ['before', 'after'] as const) {
        await t.test(`${when} ${step} ${pass} at the ${end}`, async () => {
          const digest = await use(fleet, from, id, true);
          const dying = end === 'source' ? from : to;
          const began = new Date().toISOString();
          const isNow = (state: string) => isOf(from, state, began);
          await fleet.node(dying).driver.stop();
          await fleet.startNode(dying, `${when} ${step} ${pass}`);
          await eventually(async () => {
            await start(fleet, viewer, id, to);
            assert.ok(fleet.node(dying).driver.hasEnded || (await movesOf(fleet, viewer, id)).some(isNow('done')));
          });
          if (pass === 1 && when === 'after') {
            await fleet.controller?.kill();
            await fleet.startController();
          }
          if (!fleet.node(dying).driver.hasEnded) await fleet.node(dying).driver.stop();
          await fleet.startNode(dying);
          // One that had not been noted yet is ordered again.
          await eventually(async () => {
            const moves = await movesOf(fleet, viewer, id);
            if (!moves.some(isNow('running')) && !moves.some(isNow('done'))) await start(fleet, viewer, id, to);
            assert.ok(moves.some(isNow('done')), JSON.stringify(moves));
          });
          assert.equal(await use(fleet, to, id, false), digest);
          const left = readdirSync(fleet.node(from).scratch.join('pool', 'volumes'));
          assert.ok(!left.includes(id), 'the source still has it');
          assert.deepEqual([noteOf(to).at, noteOf(from).at], [undefined, to]);
          assert.equal(noteOf(to).generation, noteOf(from).generation);
          await assert.rejects(use(fleet, from, id, false), /There is no volume/);
          [from, to] = [to, from];
        });
      }
    }
  });
});

function isOf(fromNode: string, state: string, began: string) {
  return (move: { readonly fromNode?: string | undefined; readonly state: string; readonly startedAt: string }) =>
    move.fromNode === fromNode && move.state === state && move.startedAt > began;
}
