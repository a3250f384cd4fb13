import assert from 'node:assert/strict';
import { cpSync, readdirSync, rmSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import type { StepName } from '../../src/volume/step.ts';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import { eventually } from '../support/eventually.ts';
import { LinkedNode } from './support/fleet.ts';
import { created, everything, MovingFleet, movesOf, start, started, use } from './support/moving-fleet.ts';
import { Viewer } from './support/viewer.ts';

type End = 'source' | 'target';

const nodes = { source: 'node-a', target: 'node-b' } as const;

/** The steps of a cancel at each end, of a volume that is being copied, and of one that was handed over. */
const points: readonly (readonly [state: 'copied' | 'given', end: End, StepName, pass?: number])[] = [
  ['copied', 'source', 'move/open'],
  ['copied', 'source', 'move/forget'],
  ['copied', 'target', 'move/discard'],
  ['copied', 'target', 'move/forget'],
  ['given', 'target', 'move/generation'],
  ['given', 'source', 'move/generation'],
  ['given', 'source', 'move/take-back'],
  ['given', 'source', 'move/forget'],
  // It passes them first when the move fails there.
  ['given', 'target', 'move/discard', 2],
  ['given', 'target', 'move/forget', 2],
];

const tmpOf = (fleet: MovingFleet, name: string) => fleet.node(name).scratch.join('pool', 'tmp');
const volumesOf = (fleet: MovingFleet, name: string) => readdirSync(fleet.node(name).scratch.join('pool', 'volumes'));

async function cancel(fleet: MovingFleet, viewer: Viewer, id: string) {
  const { controller = assert.fail('no controller') } = fleet;
  return viewer.post(controller, `/v1/moves/cancel?output=json&volume=${id}`);
}

/** The volume moves, and the driver at that end dies at that point of what comes next. */
async function copying(fleet: MovingFleet, viewer: Viewer, id: string, dying: string, point: string): Promise<void> {
  await started(fleet, viewer, id, nodes.target, '&limit=64Ki');
  await fleet.node(dying).driver.stop();
  await fleet.startNode(dying, point);
  await eventually(async () => {
    const moves = await movesOf(fleet, viewer, id);
    assert.ok(
      moves.some(({ phase, state }) => state === 'running' && phase === 'switching'),
      JSON.stringify(moves),
    );
  });
}

/** The volume was handed over, and the copy that waited for it is lost. */
async function handedOver(fleet: MovingFleet, viewer: Viewer, id: string, dying?: string, point?: string) {
  const { target } = nodes;
  const pointOf = (name: string) => (name === dying ? point : undefined);
  await fleet.node(target).driver.stop();
  await fleet.startNode(target, 'before move/commit 1');
  await eventually(async () => {
    await start(fleet, viewer, id, target);
    assert.ok(fleet.node(target).driver.hasEnded);
  });
  for (const name of readdirSync(tmpOf(fleet, target))) rmSync(`${tmpOf(fleet, target)}/${name}`, { recursive: true });
  if (dying === nodes.source) {
    await fleet.node(dying).driver.stop();
    await fleet.startNode(dying, point);
  }
  await fleet.startNode(target, pointOf(target));
  await eventually(async () => {
    const moves = await movesOf(fleet, viewer, id);
    assert.ok(moves.some(({ state, reason }) => state === 'failed' && /no copy of it any more/.test(reason ?? '')));
  });
}

describe('a move between nodes that is cancelled', () => {
  let command: DriverCommand;
  before(async () => {
    command = await buildDriver();
  });
  after(() => command[Symbol.dispose]());

  test('while a driver is killed before and after each step, and the controller with it: one whole copy', async (t) => {
    await using fleet = await MovingFleet.start(command);
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    for (const [state, end, step, pass = 1] of points) {
      for (const when of ['before', 'after'] as const) {
        await t.test(`${when} ${step} at the ${end}, of a volume that is ${state}`, async () => {
          const digest = await use(fleet, nodes.source, id, true);
          const dying = nodes[end];
          const set = state === 'copied' ? copying : handedOver;
          await set(fleet, viewer, id, dying, `${when} ${step} ${pass}`);
          await eventually(async () => {
            await cancel(fleet, viewer, id);
            assert.ok(fleet.node(dying).driver.hasEnded);
          });
          if (when === 'after') {
            await fleet.controller?.kill();
            await fleet.startController();
          }
          await fleet.startNode(dying);
          await eventually(async () => {
            const { problems, status } = await cancel(fleet, viewer, id);
            const moves = await movesOf(fleet, viewer, id);
            // Its target may have heard of the end before it was ended there, too.
            const hasEnded = moves.every((move) => move.state === 'cancelled' || /cancelled/.test(move.reason ?? ''));
            assert.ok(hasEnded && moves.length > 0, `${status} ${problems} ${JSON.stringify(moves)}`);
          });
          assert.equal(await use(fleet, nodes.source, id, false), digest);
          assert.ok(!volumesOf(fleet, nodes.target).includes(id), 'the target has it, too');
          await eventually(() => assert.deepEqual(readdirSync(tmpOf(fleet, nodes.target)), []));
        });
      }
    }
  });

  test('is refused while a third node has the volume, and nothing changes', async () => {
    await using fleet = await MovingFleet.start(command);
    const { controller = assert.fail('no controller') } = fleet;
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    await use(fleet, 'node-a', id, true);
    // A disk with the volume, as it was before the move.
    const third = LinkedNode.prepare(fleet.api, 'node-c', [controller]);
    fleet.nodes.set('node-c', third);
    cpSync(fleet.node('node-a').scratch.join('pool'), third.scratch.join('pool'), { recursive: true });
    await handedOver(fleet, viewer, id);
    fleet.api.known.csiNodes.add('node-c');
    await fleet.startNode('node-c');
    await controller.logged('inventory complete', { node: 'node-c' });
    const { problems, status } = await cancel(fleet, viewer, id);
    assert.notEqual(status, 200);
    assert.match(problems, /is on node node-c by now/);
    await assert.rejects(use(fleet, 'node-a', id, false), /was handed over/);
    await third.driver.stop();
    rmSync(third.scratch.join('pool', 'volumes', id), { recursive: true });
    await fleet.startNode('node-c');
    await eventually(async () => {
      const answer = await cancel(fleet, viewer, id);
      assert.equal(answer.status, 200, answer.problems);
    });
    await use(fleet, 'node-a', id, false);
  });
});
