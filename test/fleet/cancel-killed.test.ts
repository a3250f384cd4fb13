import assert from 'node:assert/strict';
import { cpSync, readdirSync, rmSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { fleetShapes } from '../../src/cli/fleet/shapes.ts';
import { readTakenBack } from '../../src/fleet/kubernetes/taken-back.ts';
import type { StepName } from '../../src/volume/step.ts';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import { holdfast } from '../support/command.ts';
import { eventually } from '../support/eventually.ts';
import { LinkedNode, volumeOn } from './support/fleet.ts';
import { created, everything, MovingFleet, movesOf, raw, start, started, use } from './support/moving-fleet.ts';
import { Viewer } from './support/viewer.ts';

type End = 'source' | 'target';

const nodes = { source: 'node-a', target: 'node-b' } as const;
const place = { namespace: 'holdfast', name: 'holdfast-controller' };

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
    const viewer = new Viewer(fleet.api, 'operator', [...everything, 'nodes']);
    const id = await created(fleet);
    await use(fleet, nodes.source, id, true);
    const third = LinkedNode.prepare(fleet.api, 'node-c', [controller]);
    fleet.nodes.set('node-c', third);
    fleet.api.known.csiNodes.add('node-c');
    for (const state of ['copied', 'given'] as const) {
      await fleet.startNode('node-c');
      await third.driver.stop();
      // A disk with the volume, as it was before the move.
      cpSync(fleet.node(nodes.source).scratch.join('pool', 'volumes', id), third.scratch.join('pool', 'volumes', id), {
        recursive: true,
      });
      if (state === 'given') await handedOver(fleet, viewer, id);
      else await started(fleet, viewer, id, nodes.target, '&limit=64Ki');
      await fleet.startNode('node-c');
      await eventually(async () => {
        const { nodes: seen } = fleetShapes.nodes.parse(
          JSON.parse((await viewer.see(controller, '/v1/nodes?output=json')).result),
        );
        const { state: link, volumes } = seen.find(({ node }) => node === 'node-c') ?? {};
        assert.deepEqual([link, volumes], ['linked', 1]);
      });
      const { problems, status } = await cancel(fleet, viewer, id);
      assert.notEqual(status, 200);
      const copies = state === 'given' ? 'node node-a' : 'node node-. or node node-.';
      assert.match(problems, new RegExp(`is on node node-c by now, so a copy on ${copies} must not`));
      if (state === 'given') await assert.rejects(use(fleet, nodes.source, id, false), /was handed over/);
      await third.driver.stop();
      rmSync(third.scratch.join('pool', 'volumes', id), { recursive: true });
      await fleet.startNode('node-c');
      await eventually(async () => {
        const answer = await cancel(fleet, viewer, id);
        assert.equal(answer.status, 200, answer.problems);
      });
      await use(fleet, nodes.source, id, false);
      await third.driver.stop();
    }
  });

  test('is refused while any node is away once it was handed over, and not before', async () => {
    await using fleet = await MovingFleet.start(command);
    const { controller = assert.fail('no controller') } = fleet;
    const viewer = new Viewer(fleet.api, 'operator', [...everything, 'nodes']);
    const id = await created(fleet);
    const digest = await use(fleet, nodes.source, id, true);
    /** A node that has no link; undefined: there is none. */
    const away = async (name: string | undefined) => {
      fleet.api.known.csiNodes.delete('node-c');
      if (name !== undefined) fleet.api.known.csiNodes.add(name);
      fleet.api.changed();
      await eventually(async () => {
        const { result } = await viewer.see(controller, '/v1/nodes?output=json');
        assert.equal(/"node-c"/.test(result), name !== undefined, result);
      });
    };
    await away('node-c');
    await started(fleet, viewer, id, nodes.target, '&limit=64Ki');
    await eventually(async () => {
      const { problems, status } = await cancel(fleet, viewer, id);
      assert.equal(status, 200, problems);
    });
    await away(undefined);
    await handedOver(fleet, viewer, id);
    await away('node-c');
    const refused = await cancel(fleet, viewer, id);
    assert.match(
      refused.problems,
      /may have moved on from node node-b .* and node-c is away since .* forget-node NODE/,
    );
    await assert.rejects(use(fleet, nodes.source, id, false), /was handed over/);
    await away(undefined);
    await eventually(async () => {
      const { problems, status } = await cancel(fleet, viewer, id);
      assert.equal(status, 200, problems);
    });
    assert.equal(await use(fleet, nodes.source, id, false), digest);
    const api = fleet.api.client(fleet.scratch);
    await using _api = { [Symbol.asyncDispose]: async () => api.close() };
    const { generation = 0, node } = (await readTakenBack(api, place)).get(id) ?? {};
    // A disk of node b that any node gets later has only an earlier copy.
    assert.deepEqual([node, generation >= 2], [nodes.source, true], `${generation}`);
  });
});

describe('a move between pools of a node that is cancelled through the controller', () => {
  test('is refused while another node is away once it was handed over, and not before', async () => {
    using command = await buildDriver();
    await using fleet = await MovingFleet.start(command);
    const { controller = assert.fail('no controller') } = fleet;
    const viewer = new Viewer(fleet.api, 'operator', everything);
    // Its volumes do not move to other nodes.
    const node = LinkedNode.prepare(fleet.api, 'node-c', [controller], {}, ['default', 'fast']);
    fleet.nodes.set('node-c', node);
    fleet.api.known.csiNodes.add('node-c');
    const startNode = (crashAt: Record<string, string> = {}) =>
      node.startDriver({ command: command.plain, environment: { ...command.environment, ...crashAt } });
    await startNode({ HOLDFAST_TEST_CRASH_AT: 'before move/commit 1' });
    await controller.logged('inventory complete', { node: 'node-c' });
    using client = controller.connect();
    const request = { ...volumeOn('node-c', 'data'), volume_capabilities: [raw] };
    const { volume } = await client.controller.CreateVolume(request);
    const id = volume?.volume_id ?? '';
    const digest = await use(fleet, 'node-c', id, true);
    const typed = (...words: string[]) =>
      holdfast(['move', id, '--to-pool', 'fast', ...words], node.driver.environment);
    const cancelled = (word = '') =>
      viewer.post(controller, `/v1/moves/cancel?output=json&volume=${id}&node=node-c${word}`);
    await fleet.node('node-b').driver.stop();
    await controller.logged('a link has ended', { node: 'node-b' });

    const slow = await typed('--limit', '64Ki');
    assert.equal(slow.code, 0, slow.stderr);
    const before = await cancelled();
    assert.equal(before.status, 200, before.problems);

    await typed();
    await eventually(() => assert.ok(node.driver.hasEnded));
    for (const name of readdirSync(node.scratch.join('fast', 'tmp'))) {
      rmSync(node.scratch.join('fast', 'tmp', name), { recursive: true });
    }
    await startNode();
    await eventually(async () => {
      assert.match((await cancelled()).problems, /no node that is there has it, and node-b is away/);
    });
    await assert.rejects(use(fleet, 'node-c', id, false), /was handed over/);
    await fleet.startNode('node-b');
    // Its target has nothing of it any more: it may have come there.
    await eventually(async () => {
      assert.match((await cancelled()).problems, /may have come to pool fast, and been used there.* --even-so/);
    });
    await eventually(async () => {
      const { problems, status } = await cancelled('&even-so=true');
      assert.equal(status, 200, problems);
    });
    assert.equal(await use(fleet, 'node-c', id, false), digest);
  });
});
