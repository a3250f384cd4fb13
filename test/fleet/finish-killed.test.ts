import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import type { StepName } from '../../src/volume/step.ts';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import { eventually } from '../support/eventually.ts';
import { forgottenLongAgo } from './support/forgotten.ts';
import { created, everything, MovingFleet, movesOf, started, use } from './support/moving-fleet.ts';
import { Viewer } from './support/viewer.ts';

/**
 * The points between the steps by which a copy becomes the volume without its source, each with the pass at which its driver dies. Before
 * a step is the same as after the one before it.
 */
const points: readonly (readonly [when: 'after' | 'before', StepName, pass: number])[] = [
  ['before', 'move/generation', 1],
  ['after', 'move/generation', 1],
  ['after', 'move/complete', 1],
  ['after', 'move/commit', 1],
  ['after', 'move/generation', 2],
  ['after', 'move/forget', 1],
];

describe('a move between nodes that is finished without its source', () => {
  let command: DriverCommand;
  before(async () => {
    command = await buildDriver();
  });
  after(() => command[Symbol.dispose]());

  test('while its driver is killed between any two steps, and the controller with it: one whole copy', async (t) => {
    await using fleet = await MovingFleet.start(command);
    const api = fleet.api.client(fleet.scratch);
    await using _api = { [Symbol.asyncDispose]: async () => api.close() };
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    const volumesOf = (name: string) => readdirSync(fleet.node(name).scratch.join('pool', 'volumes'));
    let [from, to] = ['node-a', 'node-b'];
    for (const [at, [when, step, pass]] of points.entries()) {
      await t.test(`${when} ${step} ${pass}`, async () => {
        const finish = () => {
          const { controller = assert.fail('no controller') } = fleet;
          return viewer.post(controller, `/v1/moves/finish?output=json&volume=${id}&node=${to}&node-is-lost=${from}`);
        };
        const digest = await use(fleet, from, id, true);
        await fleet.node(to).driver.stop();
        await fleet.startNode(to, 'before move/complete 1');
        await started(fleet, viewer, id, to);
        await fleet.node(to).driver.ended();
        await fleet.node(from).driver.kill();
        await fleet.startNode(to, `${when} ${step} ${pass}`);
        const forgotten = await forgottenLongAgo(api, from, finish);
        await eventually(async () => {
          const { problems } = await finish();
          assert.ok(fleet.node(to).driver.hasEnded, problems);
        }, 30_000);
        if (at % 2 === 1) {
          await fleet.controller?.kill();
          await fleet.startController();
        }
        await fleet.startNode(to);
        await eventually(async () => {
          // It may have been done, and noted, before.
          const { problems } = await finish();
          const moves = await movesOf(fleet, viewer, id);
          const isDone = moves.some((move) => move.state === 'done' && move.fromNode === from);
          assert.ok(isDone, `${problems} ${JSON.stringify(moves)}`);
        }, 30_000);
        assert.equal(await use(fleet, to, id, false), digest);
        await forgotten.change((notes) => notes.delete(from));
        await fleet.startNode(from);
        await eventually(() => assert.ok(!volumesOf(from).includes(id), 'the source still has it'), 90_000);
        await assert.rejects(use(fleet, from, id, false), /There is no volume/);
        assert.equal(await use(fleet, to, id, false), digest);
        [from, to] = [to, from];
      });
    }
  });
});
