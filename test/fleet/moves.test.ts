import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import { eventually } from '../support/eventually.ts';
import { authorityIn } from './support/fleet.ts';
import { created, everything, MovingFleet, moved, movesOf, raw, start, started, use } from './support/moving-fleet.ts';
import { Viewer } from './support/viewer.ts';

describe('moves between nodes, brokered by the controller', () => {
  let command: DriverCommand;
  before(async () => {
    command = await buildDriver();
  });
  after(() => command[Symbol.dispose]());

  test('a volume moves there and back; its calls follow it', async () => {
    await using fleet = await MovingFleet.start(command);
    const { controller = assert.fail('no controller') } = fleet;
    const viewer = new Viewer(fleet.api, 'operator', [...everything, 'volumes', 'delete:nodes']);
    const id = await created(fleet);
    const digest = await use(fleet, 'node-a', id, true);
    let dry = await start(fleet, viewer, id, 'node-b', '&dry-run=true');
    await eventually(async () => {
      dry = await start(fleet, viewer, id, 'node-b', '&dry-run=true');
      assert.equal(dry.status, 200, dry.problems);
    });
    assert.match(dry.result, /"fromNode":"node-a"/);
    assert.deepEqual(await movesOf(fleet, viewer, id), []);
    for (const [from, to] of [
      ['node-a', 'node-b'],
      ['node-b', 'node-a'],
    ] as const) {
      await started(fleet, viewer, id, to);
      await eventually(async () => {
        const moves = await movesOf(fleet, viewer, id);
        assert.deepEqual(
          moves.filter(({ fromNode }) => fromNode === from).map(({ node, state }) => [node, state]),
          [[to, 'done']],
        );
      });
      assert.equal(await use(fleet, to, id, false), digest);
      using client = controller.connect();
      await eventually(async () => {
        const { volume } = await client.controller.ControllerGetVolume({ volume_id: id });
        assert.equal(volume?.accessible_topology[0]?.segments['topology.holdfast.dev/node'], to);
      });
    }
    // What the plugin asks.
    assert.equal((await viewer.see(controller, `/v1/volumes?output=progress&volume=${id}`)).result.trim(), 'node-a');
    assert.equal((await viewer.see(controller, '/v1/volumes?output=progress&node=node-a')).result, id);
    assert.equal((await viewer.see(controller, '/v1/snapshots?output=progress&node=node-a')).result, '');
    // Its move to node-a has ended, and nobody has changed the PersistentVolume.
    fleet.api.known.volumes.set(id, 'node-gone');
    const forgetting = await viewer.post(controller, '/v1/nodes/forget?node=node-gone&dry-run=true');
    assert.match(
      forgetting.result,
      new RegExp(`Volume ${id} of PersistentVolume .* is on node node-a, and not lost, unless all disks .*: keep its`),
    );
    assert.doesNotMatch(forgetting.result, /Bound/);
    fleet.api.known.volumes.delete(id);
    // Nodes report their moves once a second.
    await eventually(async () => {
      const how = await viewer.see(controller, `/v1/moves?output=progress&volume=${id}`);
      assert.match(how.result, /^done - node-a$/m);
    });
    const other = await viewer.see(controller, `/v1/moves?output=progress&volume=${id}&move=${randomUUID()}`);
    assert.match(other.result, /^none - -$/m);
    const nobody = new Viewer(fleet.api, 'nobody', ['moves']);
    assert.equal((await start(fleet, nobody, id, 'node-b')).status, 403);
    assert.match((await start(fleet, viewer, id, 'node-z')).problems, /There is no node node-z/);
    assert.match((await start(fleet, viewer, id, 'node-a')).problems, /is on node node-a already/);
  });

  test('a move goes on after both nodes have restarted, first the one that fetches', async () => {
    await using fleet = await MovingFleet.start(command);
    const { controller = assert.fail('no controller') } = fleet;
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    await use(fleet, 'node-a', id, true);
    await started(fleet, viewer, id, 'node-b', '&limit=128Ki');
    await fleet.node('node-a').driver.kill();
    await fleet.node('node-b').driver.kill();
    await fleet.startNode('node-b');
    await controller.logged('the nodes of a move cannot be brought together yet', { node: 'node-b' });
    await fleet.startNode('node-a');
    await eventually(async () => {
      const [move] = await movesOf(fleet, viewer, id);
      assert.ok(move?.state === 'done' || BigInt(move?.doneBytes ?? '0') > 0n, move?.reason ?? '');
    });
  });

  test('a volume that is attached to a node moves, is attached where it is, and is detached from the first node after that', async () => {
    await using fleet = await MovingFleet.start(command, 'required');
    const { controller = assert.fail('no controller') } = fleet;
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    using client = controller.connect();
    const publish = (node_id: string) =>
      client.controller.ControllerPublishVolume({ volume_id: id, node_id, volume_capability: raw });
    const unpublish = (node_id: string) => client.controller.ControllerUnpublishVolume({ volume_id: id, node_id });
    await publish('node-a');
    const digest = await use(fleet, 'node-a', id, true);
    await started(fleet, viewer, id, 'node-b');
    await eventually(async () => {
      const [move] = await movesOf(fleet, viewer, id);
      assert.equal(move?.state, 'done', move?.reason ?? '');
    });
    // The copy that it has left can be used no more: that attachment keeps nothing back.
    await eventually(async () => void (await publish('node-b')));
    // Kubernetes detaches it once the pod is gone, and its driver is the other one by then.
    await eventually(async () => void (await unpublish('node-a')));
    assert.equal(await use(fleet, 'node-b', id, false), digest);
    await assert.rejects(publish('node-a'));
    await unpublish('node-b');
  });

  test('a volume that has just moved is deleted where it is', async () => {
    await using fleet = await MovingFleet.start(command);
    const { controller = assert.fail('no controller') } = fleet;
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    await started(fleet, viewer, id, 'node-b');
    const isOn = (name: string) => readdirSync(fleet.node(name).scratch.join('pool', 'volumes')).includes(id);
    await eventually(() => assert.ok(isOn('node-b') && !isOn('node-a')));
    using client = controller.connect();
    await eventually(async () => {
      await client.controller.DeleteVolume({ volume_id: id });
    });
    assert.deepEqual([isOn('node-a'), isOn('node-b')], [false, false]);
  });

  test('a move that was not brokered gets no node in, whatever a node says of it', async () => {
    await using fleet = await MovingFleet.start(command);
    const { controller = assert.fail('no controller') } = fleet;
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const id = await created(fleet);
    await use(fleet, 'node-a', id, true);
    await started(fleet, viewer, id, 'node-b', '&limit=128Ki');
    const path = fleet.node('node-b').scratch.join('data', 'moves', `${id}.json`);
    await fleet.node('node-b').driver.kill();
    // A node that was taken over writes what it likes.
    writeFileSync(
      path,
      readFileSync(path, 'utf8').replace(/"ticket":"./, (all) => `"ticket":"${all.endsWith('-') ? '_' : '-'}`),
    );
    await fleet.startNode('node-b');
    await controller.logged('a node tells of a move that was not brokered here', { node: 'node-b' });
    const how = await viewer.see(controller, `/v1/moves?output=progress&volume=${id}`);
    assert.match(how.result, /^(none|running) \S+ (-|node-b)$/m);
    assert.deepEqual(
      (await movesOf(fleet, viewer, id)).map(({ state }) => state),
      ['running'],
    );
    assert.match(
      (await start(fleet, viewer, id, 'node-b')).problems,
      /is moving to node node-b already: kubectl holdfast move --resume CLAIM/,
    );
    // An operator can end it: the source knows this move, and lets its target in.
    await eventually(async () => {
      const cancelled = await viewer.post(controller, `/v1/moves/cancel?output=json&volume=${id}`);
      assert.equal(cancelled.status, 200, cancelled.problems);
    });
    await eventually(async () => {
      const states = (await movesOf(fleet, viewer, id)).map(({ state }) => state);
      assert.deepEqual(states, ['cancelled']);
    });
    await use(fleet, 'node-a', id, true);
  });

  test('a move goes on after new keys', async () => {
    await using fleet = await MovingFleet.start(command);
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const { digest, id } = await movingUnderNewKeys(fleet, viewer, 'ca.key');
    await eventually(async () => {
      const [move] = await movesOf(fleet, viewer, id);
      assert.ok(move?.state === 'done' || BigInt(move?.doneBytes ?? '0') > 0n, move?.reason ?? '');
    });
    await eventually(async () => {
      const [move] = await movesOf(fleet, viewer, id);
      assert.equal(move?.state, 'done', move?.reason ?? '');
    }, 60_000);
    assert.equal(await use(fleet, 'node-b', id, false), digest);
  });

  test('a move whose ticket no key knows any more is cancelled, and ordered again', async () => {
    await using fleet = await MovingFleet.start(command);
    const viewer = new Viewer(fleet.api, 'operator', everything);
    const { digest, id } = await movingUnderNewKeys(fleet, viewer, 'ca.key', 'move.key');
    await eventually(async () => {
      const cancelled = await viewer.post(controllerOf(fleet), `/v1/moves/cancel?output=json&volume=${id}`);
      assert.equal(cancelled.status, 200, cancelled.problems);
    });
    await started(fleet, viewer, id, 'node-b');
    await moved(fleet, viewer, id);
    assert.equal(await use(fleet, 'node-b', id, false), digest);
  });
});

function controllerOf(fleet: MovingFleet) {
  return fleet.controller ?? assert.fail('no controller');
}

/** A volume moves to a node whose driver is killed, and there are new keys when it starts again. */
async function movingUnderNewKeys(fleet: MovingFleet, viewer: Viewer, ...keys: readonly string[]) {
  const id = await created(fleet);
  const digest = await use(fleet, 'node-a', id, true);
  await started(fleet, viewer, id, 'node-b', '&limit=128Ki');
  await fleet.node('node-b').driver.kill();
  await newKeys(fleet, ...keys);
  await fleet.startNode('node-b');
  return { digest, id };
}

/** The operator removes these keys, and starts the controller again. The kubelet brings the new authority. */
async function newKeys(fleet: MovingFleet, ...keys: readonly string[]): Promise<void> {
  await controllerOf(fleet).kill();
  const secret = fleet.api.known.objects.get('secrets/holdfast-controller') ?? assert.fail('no Secret');
  const data = Object.entries(Object(secret['data']));
  for (const key of keys)
    assert.ok(
      data.some(([name]) => name === key),
      key,
    );
  secret['data'] = Object.fromEntries(data.filter(([name]) => !keys.includes(name)));
  const before = authorityIn(fleet.api);
  await fleet.startController();
  assert.notEqual(authorityIn(fleet.api), before);
  for (const node of fleet.nodes.values()) node.trust(authorityIn(fleet.api));
}
