import assert from 'node:assert/strict';
import { cpSync, readdirSync, rmSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { SecretNotes } from '../../src/fleet/kubernetes/secret-notes.ts';
import { readTakenBack } from '../../src/fleet/kubernetes/taken-back.ts';
import { buildDriver, type DriverCommand } from '../crash/bundle.ts';
import { holdfast } from '../support/command.ts';
import { environmentFor } from '../support/driver.ts';
import { eventually } from '../support/eventually.ts';
import { LinkedNode } from './support/fleet.ts';
import { forgottenLongAgo, place } from './support/forgotten.ts';
import { created, everything, MovingFleet, moved, movesOf, started, use } from './support/moving-fleet.ts';
import { Viewer } from './support/viewer.ts';

const rights = [...everything, 'volumes', 'trash', 'update:trash'];

/** Typed on the node itself, while it has a link. */
async function typedAt(fleet: MovingFleet, node: string, words: readonly string[]) {
  const { scratch } = fleet.node(node);
  const config = `defaultPool: default\npools:\n  default: { directory: ${scratch.join('pool')} }\n`;
  return holdfast([...words], environmentFor(scratch, { config }));
}

/** The disk of a node's pool is lost while its driver does not run: an empty one is in its place. @returns puts the disk back */
function loseDisk(fleet: MovingFleet, node: string): () => void {
  const { scratch } = fleet.node(node);
  const places = ['pool', 'data/pools'].map((name, at) => [scratch.join(name), scratch.join(`old-${at}`)] as const);
  for (const [now, old] of places) {
    cpSync(now, old, { recursive: true });
    rmSync(now, { recursive: true });
  }
  return () => {
    for (const [now, old] of places) {
      rmSync(now, { recursive: true });
      cpSync(old, now, { recursive: true });
    }
  };
}

let command: DriverCommand;
before(async () => {
  command = await buildDriver();
});
after(() => command[Symbol.dispose]());

/** A fleet with a volume on node a that a pod has written to. */
class WrittenVolume implements AsyncDisposable {
  readonly fleet: MovingFleet;
  readonly controller: NonNullable<MovingFleet['controller']>;
  readonly viewer: Viewer;
  readonly api: ReturnType<MovingFleet['api']['client']>;
  readonly id: string;
  readonly digest: string;

  private constructor(fleet: MovingFleet, { digest, id }: { readonly digest: string; readonly id: string }) {
    this.fleet = fleet;
    this.controller = fleet.controller ?? assert.fail('no controller');
    this.viewer = new Viewer(fleet.api, 'operator', rights);
    this.api = fleet.api.client(fleet.scratch);
    this.id = id;
    this.digest = digest;
  }

  static async onNodeA(): Promise<WrittenVolume> {
    const fleet = await MovingFleet.start(command);
    try {
      const id = await created(fleet);
      return new WrittenVolume(fleet, { id, digest: await use(fleet, 'node-a', id, true) });
    } catch (error) {
      await fleet[Symbol.asyncDispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.api.close();
    await this.fleet[Symbol.asyncDispose]();
  }
}

describe('a node that is lost after a volume has moved to it', () => {
  test('is not lost as long as it is known to have the volume: nothing is restored, nor if a node does not answer', async () => {
    await using fleet = await MovingFleet.start(command);
    const { controller = assert.fail('no controller') } = fleet;
    const viewer = new Viewer(fleet.api, 'operator', rights);
    const id = await created(fleet);
    await started(fleet, viewer, id, 'node-b');
    await moved(fleet, viewer, id);
    const restore = (more = '') =>
      viewer.post(controller, `/v1/trash/restore?output=json&volume=${id}&node=node-a${more}`);
    await eventually(async () => {
      for (const more of ['', '&pool-is-lost=default']) {
        assert.match((await restore(more)).problems, /is on node node-b by now, so a copy on node node-a/);
      }
    });
    using client = controller.connect();
    await client.controller.DeleteVolume({ volume_id: id });
    await fleet.node('node-b').driver.stop();
    await eventually(async () => {
      assert.match(
        (await restore('&pool-is-lost=default')).problems,
        /no node that is there has it, and node-b is away/,
      );
    });
    const local = await typedAt(fleet, 'node-a', ['trash', 'restore', id, '--pool-is-lost', 'x']);
    const words = `the controller asks all nodes .*: kubectl holdfast trash restore ${id} --pool-is-lost x,`;
    assert.match(local.stderr, new RegExp(words));
  });

  test('has the volume taken back once it is forgotten, and its own copy is used no more when it is there again', async () => {
    await using written = await WrittenVolume.onNodeA();
    const { api, controller, digest, fleet, id, viewer } = written;
    await started(fleet, viewer, id, 'node-b');
    const volumesOn = (node: string) => readdirSync(fleet.node(node).scratch.join('pool', 'volumes'));
    await eventually(async () => {
      assert.deepEqual(
        (await movesOf(fleet, viewer, id)).map(({ state }) => state),
        ['done'],
      );
    });
    const restore = () =>
      viewer.post(controller, `/v1/trash/restore?output=json&volume=${id}&node=node-a&node-is-lost=node-b`);
    const local = await typedAt(fleet, 'node-a', ['trash', 'restore', id, '--node-is-lost', 'node-b']);
    assert.match(local.stderr, /the controller checks whether node node-b is lost: kubectl holdfast trash restore/);

    await eventually(async () => assert.match((await restore()).problems, /forget-node node-b comes first/));
    await fleet.node('node-b').driver.kill();
    await controller.logged('a link has ended', { node: 'node-b' });
    const forgotten = await forgottenLongAgo(api, 'node-b', restore);
    await eventually(async () => {
      const { problems, status } = await restore();
      assert.equal(status, 200, problems);
    }, 30_000);
    assert.equal(await use(fleet, 'node-a', id, false), digest);
    const note = (await readTakenBack(api, place)).get(id);
    assert.equal(note?.node, 'node-a');
    assert.ok((note?.generation ?? 0) > 2);
    // Its calls go to it again, although the lost node had said that it has the volume.
    using client = controller.connect();
    const { volume } = await client.controller.ControllerGetVolume({ volume_id: id });
    assert.equal(volume?.accessible_topology[0]?.segments['topology.holdfast.dev/node'], 'node-a');

    await forgotten.change((notes) => notes.delete('node-b'));
    await fleet.startNode('node-b');
    await controller.logged('a node that was lost knows that a volume was taken back from it', { node: 'node-b' });
    assert.deepEqual([volumesOn('node-a').includes(id), volumesOn('node-b').includes(id)], [true, false]);
    assert.equal(await use(fleet, 'node-a', id, false), digest);
    const again = await viewer.post(controller, `/v1/trash/restore?output=json&volume=${id}&node=node-b`);
    assert.match(again.problems, /is on node node-a by now, so a copy on node node-b must not be used/);
  });
});

describe('a node that has lost the disk of a volume which has moved to it', () => {
  test('gives it up, so that it is restored on the first node, and uses no copy of the disk when that is there again', async () => {
    await using written = await WrittenVolume.onNodeA();
    const { api, controller, digest, fleet, id, viewer } = written;
    await started(fleet, viewer, id, 'node-b');
    await moved(fleet, viewer, id);
    const restore = (pool = 'default') =>
      viewer.post(controller, `/v1/trash/restore?output=json&volume=${id}&node=node-a&pool-is-lost=${pool}`);
    await eventually(async () => assert.match((await restore()).problems, /is on node node-b by now/));
    await fleet.node('node-b').driver.stop();
    const putBack = loseDisk(fleet, 'node-b');
    await eventually(async () => assert.match((await restore()).problems, /is on node node-b|node-b is away/));
    await fleet.startNode('node-b');
    await eventually(async () => {
      assert.match((await restore('fast')).problems, /came to pool default of this node, and not to pool fast/);
    });
    assert.equal((await readTakenBack(api, place)).get(id), undefined);
    await eventually(async () => {
      const { problems, status } = await restore();
      assert.equal(status, 200, problems);
    });
    assert.equal(await use(fleet, 'node-a', id, false), digest);
    assert.ok(((await readTakenBack(api, place)).get(id)?.generation ?? 0) > 1_000_000);

    await fleet.node('node-b').driver.stop();
    putBack();
    await fleet.startNode('node-b');
    await assert.rejects(
      use(fleet, 'node-b', id, false),
      /has moved since its copy in pool default|There is no volume/,
    );
    await controller.logged('a node that was lost knows that a volume was taken back from it', { node: 'node-b' });
    const volumesOn = (node: string) => readdirSync(fleet.node(node).scratch.join('pool', 'volumes'));
    assert.deepEqual([volumesOn('node-a').includes(id), volumesOn('node-b').includes(id)], [true, false]);
    await started(fleet, viewer, id, 'node-b');
    await eventually(async () => assert.equal(await use(fleet, 'node-b', id, false), digest));
  });
});

describe('a node that is lost while its volume is copied', () => {
  test('has the volume when it is there again after the cancel of the move, which is noted nowhere, and moves it', async () => {
    await using written = await WrittenVolume.onNodeA();
    const { api, controller, digest, fleet, id, viewer } = written;
    await started(fleet, viewer, id, 'node-b', '&limit=64Ki');
    await fleet.node('node-a').driver.kill();
    await controller.logged('a link has ended', { node: 'node-a' });
    const cancel = () =>
      viewer.post(controller, `/v1/moves/cancel?output=json&volume=${id}&node=node-b&node-is-lost=node-a`);
    const forgotten = await forgottenLongAgo(api, 'node-a', cancel);
    await eventually(async () => {
      const { problems, status } = await cancel();
      assert.equal(status, 200, problems);
    }, 30_000);
    assert.equal((await readTakenBack(api, place)).get(id), undefined);
    await forgotten.change((notes) => notes.delete('node-a'));
    await fleet.startNode('node-a');
    await eventually(async () => assert.equal(await use(fleet, 'node-a', id, false), digest));
    await started(fleet, viewer, id, 'node-b');
    await moved(fleet, viewer, id);
    assert.equal(await use(fleet, 'node-b', id, false), digest);
    assert.equal((await readTakenBack(api, place)).get(id), undefined);
  });
});

describe('a node that is lost between the hand-over of a volume and its commit', () => {
  test('has the move finished without it once it is forgotten, and its copy is used no more when it is there again', async () => {
    await using written = await WrittenVolume.onNodeA();
    const { api, controller, digest, fleet, id, viewer } = written;
    await fleet.node('node-b').driver.stop();
    await fleet.startNode('node-b', 'before move/complete 1');
    await started(fleet, viewer, id, 'node-b');
    await fleet.node('node-b').driver.ended();
    await fleet.node('node-a').driver.kill();
    await controller.logged('a link has ended', { node: 'node-a' });
    await fleet.startNode('node-b', 'after move/commit 1');

    // Its record is lost with node a.
    fleet.api.known.volumes.set(id, 'node-a');
    const claim = encodeURIComponent(`default/claim-of-${id}`);
    const finish = (word = '') =>
      viewer.post(controller, `/v1/moves/finish?output=json&volume=${claim}&node=node-b&node-is-lost=node-a${word}`);
    const needless = await viewer.post(controller, `/v1/moves/finish?output=json&volume=${id}&node=node-b`);
    assert.match(needless.problems, /move finish needs one that is lost/);
    const poolIsLost = `/v1/moves/finish?output=json&volume=${id}&node=node-b&pool-is-lost=default`;
    assert.match((await viewer.post(controller, poolIsLost)).problems, /is on node node-a by now/);
    await eventually(async () => assert.match((await finish()).problems, /forget-node node-a comes first/));
    const local = await typedAt(fleet, 'node-b', ['move', 'finish', id, '--node-is-lost', 'node-a']);
    assert.match(local.stderr, /the controller checks whether node node-a is lost: kubectl holdfast move finish/);

    const forgotten = await forgottenLongAgo(api, 'node-a', finish);
    // The lost node has taken it back before.
    const before = { node: 'node-a', lostNode: 'node-b', at: new Date().toISOString(), generation: 5_000_000 };
    const takenBack = new SecretNotes({ api, place, key: 'taken-back', schema: z.unknown() });
    await takenBack.change((notes) => notes.set(id, before) !== undefined);
    await eventually(async () =>
      assert.match((await finish()).problems, /was taken back by node node-a at .* --even-so/),
    );
    // The driver is killed once the copy is the volume, and the controller does not hear of that.
    await eventually(async () => {
      const { problems } = await finish('&even-so=true');
      assert.ok(fleet.node('node-b').driver.hasEnded, problems);
    }, 30_000);
    await fleet.startNode('node-b');
    await eventually(async () => {
      const { problems, status } = await finish('&even-so=true');
      assert.equal(status, 200, problems);
    }, 30_000);
    assert.equal(await use(fleet, 'node-b', id, false), digest);
    const note = (await readTakenBack(api, place)).get(id);
    assert.equal(note?.node, 'node-b');
    assert.ok((note?.generation ?? 0) >= 6_000_000, `${note?.generation}`);
    using client = controller.connect();
    const { volume } = await client.controller.ControllerGetVolume({ volume_id: id });
    assert.equal(volume?.accessible_topology[0]?.segments['topology.holdfast.dev/node'], 'node-b');

    await forgotten.change((notes) => notes.delete('node-a'));
    await fleet.startNode('node-a');
    await controller.logged('a node that was lost knows that a volume was taken back from it', { node: 'node-a' });
    const volumesOn = (node: string) => readdirSync(fleet.node(node).scratch.join('pool', 'volumes'));
    assert.deepEqual([volumesOn('node-a').includes(id), volumesOn('node-b').includes(id)], [false, true]);
    assert.equal(await use(fleet, 'node-b', id, false), digest);
    await assert.rejects(use(fleet, 'node-a', id, false), /There is no volume/);
  });
});

describe('a node that has lost the disk of a volume which has come to another node as a whole', () => {
  test('gives it up, so that the move is finished without that disk, and uses no copy of it when it is there again', async () => {
    await using written = await WrittenVolume.onNodeA();
    const { api, controller, digest, fleet, id, viewer } = written;
    await fleet.node('node-b').driver.stop();
    await fleet.startNode('node-b', 'after move/whole 1');
    await started(fleet, viewer, id, 'node-b');
    await fleet.node('node-b').driver.ended();
    await fleet.node('node-a').driver.stop();
    const putBack = loseDisk(fleet, 'node-a');
    await fleet.startNode('node-a');
    await fleet.startNode('node-b');
    const finish = (pool = 'default') =>
      viewer.post(controller, `/v1/moves/finish?output=json&volume=${id}&node=node-b&pool-is-lost=${pool}`);
    await eventually(async () => {
      assert.match((await finish('fast')).problems, /from pool default of node node-a, and not from pool fast/);
    });
    assert.equal((await readTakenBack(api, place)).get(id), undefined);
    await eventually(async () => {
      const { problems, status } = await finish();
      assert.equal(status, 200, problems);
    });
    assert.equal(await use(fleet, 'node-b', id, false), digest);
    const note = (await readTakenBack(api, place)).get(id);
    assert.equal(note?.node, 'node-b');
    assert.ok((note?.generation ?? 0) > 2_000_000, `${note?.generation}`);
    const leaving = await holdfast(['move', 'status', '--json'], environmentFor(fleet.node('node-a').scratch));
    assert.match(leaving.stdout, /"toNode": "node-b",\s+"state": "done"/);

    await fleet.node('node-a').driver.stop();
    putBack();
    await fleet.startNode('node-a');
    await assert.rejects(
      use(fleet, 'node-a', id, false),
      /was handed over by pool default, and this copy must not be used|There is no volume/,
    );
    await controller.logged('a node that was lost knows that a volume was taken back from it', { node: 'node-a' });
    const volumesOn = (node: string) => readdirSync(fleet.node(node).scratch.join('pool', 'volumes'));
    assert.deepEqual([volumesOn('node-a').includes(id), volumesOn('node-b').includes(id)], [false, true]);
    await started(fleet, viewer, id, 'node-a');
    await moved(fleet, viewer, id);
    await eventually(async () => assert.equal(await use(fleet, 'node-a', id, false), digest));
  });
});

describe('a node that is installed again between the hand-over of a volume and its commit', () => {
  test('gives the volume up by the cancel of the move at the first node, and a disk that it had has an earlier copy', async () => {
    await using fleet = await MovingFleet.start(command);
    const { controller = assert.fail('no controller') } = fleet;
    const viewer = new Viewer(fleet.api, 'operator', rights);
    const id = await created(fleet);
    const digest = await use(fleet, 'node-a', id, true);
    await fleet.node('node-b').driver.stop();
    await fleet.startNode('node-b', 'after move/commit 1');
    await started(fleet, viewer, id, 'node-b');
    await fleet.node('node-b').driver.ended();
    const cancel = () => viewer.post(controller, `/v1/moves/cancel?output=json&volume=${id}&node=node-a`);
    await eventually(async () => assert.match((await cancel()).problems, /was handed over to node node-b: cancel/));
    const { scratch } = fleet.node('node-b');
    const third = LinkedNode.prepare(fleet.api, 'node-c', [controller]);
    fleet.nodes.set('node-c', third);
    cpSync(scratch.join('pool'), third.scratch.join('pool'), { recursive: true });
    for (const name of ['pool', 'data']) rmSync(scratch.join(name), { recursive: true, force: true });
    await fleet.startNode('node-b');
    // It may have lost the note that the volume has gone on.
    fleet.api.known.volumes.set(id, 'node-c');
    await eventually(
      async () =>
        assert.match(
          (await cancel()).problems,
          /may be on node node-c, which its PersistentVolume names, and which is not there/,
        ),
      30_000,
    );
    fleet.api.known.volumes.set(id, 'node-b');
    await eventually(async () => {
      const { problems, status } = await cancel();
      assert.equal(status, 200, problems);
    }, 30_000);
    assert.equal(await use(fleet, 'node-a', id, false), digest);
    // Before it was installed again, node-b may have moved the volume on: each later copy is an earlier one, too.
    const note = (await readTakenBack(fleet.api.client(fleet.scratch), place)).get(id);
    assert.ok((note?.generation ?? 0) > 1_000_000, `${note?.generation}`);
    fleet.api.known.csiNodes.add('node-c');
    await fleet.startNode('node-c');
    await controller.logged('a node that was lost knows that a volume was taken back from it', { node: 'node-c' });
    await assert.rejects(use(fleet, 'node-c', id, false), /There is no volume/);
    await started(fleet, viewer, id, 'node-b');
    await moved(fleet, viewer, id);
    assert.equal(await use(fleet, 'node-b', id, false), digest);
  });
});
