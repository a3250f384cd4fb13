import assert from 'node:assert/strict';
import { cpSync, rmSync } from 'node:fs';
import { describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import { Scratch } from '../support/scratch.ts';
import { id } from './histories/place.ts';
import { World } from './histories/world.ts';

/* A node is a virtual machine with one disk, and is put back to its state of last night: the pool and the driver's notes together. */

const parts = ['a', 'a-other', 'data-a'];

function rootOf(world: World): string {
  return world.disks.pathOf('a', 'data').replace(/\/a$/, '');
}

/** All disks of node a are as they were last night. */
async function putBackAgain(world: World): Promise<void> {
  const root = rootOf(world);
  await world.whileDown('a', () => {
    for (const part of parts) {
      rmSync(`${root}/${part}`, { recursive: true });
      cpSync(`${root}/night-${part}`, `${root}/${part}`, { recursive: true });
    }
  });
  await world.fleet.told();
}

/** The volume has moved from node a to node b and was written to there; node a is as it was before. */
async function putBack(world: World): Promise<void> {
  const root = rootOf(world);
  await world.whileDown('a', () => {
    for (const part of parts) cpSync(`${root}/${part}`, `${root}/night-${part}`, { recursive: true });
  });
  await world.fleet.command({ change: 'move', volume: id, node: 'b' });
  await world.rest(10_000);
  world.record('b');
  await world.startPod();
  world.writePod();
  await world.stopPod();
  await putBackAgain(world);
  const usable = (await world.usable()).map(({ node }) => node);
  assert.deepEqual(usable.sort(), ['a', 'b']);
}

describe('a node that is put back to a state from before a move, all its disks together', () => {
  test('gets no call for the volume: its snapshots and its deletion are of the copy that its PersistentVolume names', async () => {
    using scratch = new Scratch('rolled-back');
    await using world = await World.start(scratch, { sharesBlocks: true });
    await putBack(world);
    const request = { source_volume_id: id, name: 'backup', parameters: {}, secrets: {} };
    const { snapshot } = await world.fleet.call<wire.CreateSnapshotResponse>('CreateSnapshot', request);
    const snapshotId = snapshot?.snapshot_id ?? assert.fail();
    const copies = ['a', 'b'].flatMap((node) =>
      world.disks.copiesOn(node, 'data', snapshotId).map(({ version }) => [node, version]),
    );
    assert.deepEqual(copies, [['b', world.written]]);
    await world.fleet.call('DeleteSnapshot', { snapshot_id: snapshotId, secrets: {} });
    await world.fleet.call('DeleteVolume', { volume_id: id, secrets: {} });
    assert.deepEqual(await world.usable(), []);
  });

  test('gets no call from a controller that has started since, before the other node has reported', async () => {
    using scratch = new Scratch('rolled-back');
    await using world = await World.start(scratch, { sharesBlocks: true });
    await putBack(world);
    await world.down('b');
    await world.fleet.replaceController();
    await world.fleet.told();
    const request = { source_volume_id: id, name: 'backup', parameters: {}, secrets: {} };
    const inDoubt = /is on node a, which made it, and its PersistentVolume names b, where it may be by now: b is away/;
    await assert.rejects(world.fleet.call('CreateSnapshot', request), { code: 'UNAVAILABLE', message: inDoubt });
    await assert.rejects(world.fleet.call('DeleteVolume', { volume_id: id, secrets: {} }), { message: inDoubt });
    await assert.rejects(world.fleet.command({ change: 'move', volume: id, node: 'c' }), { message: inDoubt });
    assert.deepEqual(await world.fleet.moves.recordedSilent(id, 'a'), ['b']);
    await world.up('b');
    const { snapshot } = await world.fleet.call<wire.CreateSnapshotResponse>('CreateSnapshot', request);
    const snapshotId = snapshot?.snapshot_id ?? assert.fail();
    assert.deepEqual(world.disks.copiesOn('a', 'data', snapshotId), []);
  });

  test('gives no copy for a move: the one that the PersistentVolume names moves on', async () => {
    using scratch = new Scratch('rolled-back');
    await using world = await World.start(scratch);
    await putBack(world);
    await world.fleet.command({ change: 'move', volume: id, node: 'c' });
    await world.rest(10_000);
    const usable = (await world.usable()).map(({ node, version }) => [node, version]);
    assert.deepEqual(usable.sort(), [
      ['a', 1],
      ['c', world.written],
    ]);
  });

  test('and was deleted on both nodes is restored without a word on the one that had it later', async () => {
    using scratch = new Scratch('rolled-back');
    await using world = await World.start(scratch);
    const undelete = { volume_id: id, secrets: {}, mutable_parameters: { undelete: '7d' } };
    await world.fleet.call('ControllerModifyVolume', undelete);
    await putBack(world);
    await world.fleet.call('DeleteVolume', { volume_id: id, secrets: {} });
    await assert.rejects(
      world.fleet.command({ change: 'restore', volume: id, node: 'a' }),
      /node b has a later copy of volume .* in its trash: restore that one, with --node b/,
    );
    await world.fleet.command({ change: 'restore', volume: id, node: 'b' });
    const usable = (await world.usable()).map(({ node, version }) => [node, version]);
    assert.deepEqual(usable, [['b', world.written]]);
  });

  test('gives no calls while the node that has it is no node of Kubernetes any more, and is not forgotten', async () => {
    using scratch = new Scratch('rolled-back');
    await using world = await World.start(scratch);
    await putBack(world);
    await world.down('b');
    await world.fleet.replaceController();
    world.fleet.state.expect(['a', 'c']);
    await world.down('c');
    await world.fleet.told();
    await assert.rejects(world.fleet.call('DeleteVolume', { volume_id: id, secrets: {} }), {
      message: /its PersistentVolume names b, where it may be by now: b is not there/,
    });
    assert.deepEqual(await world.fleet.moves.recordedSilent(id, 'a'), ['b']);
  });
});

describe('of two copies that can both be used', () => {
  const cancel = { change: 'cancel', volume: id } as const;

  test('the one goes to the trash by a second word that the PersistentVolume does not name, and stays an earlier one', async () => {
    using scratch = new Scratch('two-copies');
    await using world = await World.start(scratch);
    await putBack(world);
    await assert.rejects(
      world.fleet.command({ ...cancel, node: 'a' }),
      /is on node a, and on node b, which its PersistentVolume names: both can be used, .* --node a --even-so puts the copy on node a into the trash there/,
    );
    await assert.rejects(
      world.fleet.command({ ...cancel, node: 'b', evenSo: true }),
      /its PersistentVolume names node b, so that copy is not set aside/,
    );
    assert.equal((await world.usable()).length, 2);
    const shown = await world.fleet.command({ ...cancel, node: 'a', evenSo: true, json: false });
    assert.match(shown, /is on node b alone: the other copy is in the trash of its node\.$/);
    const kept = [{ node: 'b', version: world.written }];
    const usable = async () => (await world.usable()).map(({ node, version }) => ({ node, version }));
    assert.deepEqual(await usable(), kept);
    const trashed = world.disks.copiesOn('a', 'data', id).filter(({ path }) => path.includes('/trash/'));
    assert.equal(trashed.length, 1);
    // The disks of the node are put back once more.
    await putBackAgain(world);
    assert.equal((await world.usable()).length, 2);
    await world.fleet.keep();
    assert.deepEqual(await usable(), kept);
    // It moves as any other volume does.
    await world.fleet.command({ change: 'move', volume: id, node: 'a' });
    await world.rest(10_000);
    assert.deepEqual(await usable(), [{ node: 'a', version: world.written }]);
  });

  test('none goes while no PersistentVolume says which counts, or the one that it names has not moved more often', async () => {
    using scratch = new Scratch('two-copies');
    await using world = await World.start(scratch);
    await putBack(world);
    world.record('c');
    await assert.rejects(
      world.fleet.command({ ...cancel, node: 'a', evenSo: true }),
      /no PersistentVolume names one of them: first make one/,
    );
    world.record('a');
    await assert.rejects(
      world.fleet.command({ ...cancel, node: 'b', evenSo: true }),
      /that copy has not moved more often than the one on node b/,
    );
    assert.equal((await world.usable()).length, 2);
  });

  test('the one that a pod uses goes once the pod has ended', async () => {
    using scratch = new Scratch('two-copies');
    await using world = await World.start(scratch);
    await putBack(world);
    // A pod starts on the node that was there first, and sees what was there last night.
    await world.whileDown('b', () => undefined);
    world.expected = 1;
    const pod = await world.startPod();
    assert.equal(pod?.node, 'a');
    await assert.rejects(
      world.fleet.command({ ...cancel, node: 'a', evenSo: true }),
      /counts as an earlier one than that on node b from now on: it goes to the trash once it is not in use/,
    );
    await world.stopPod();
    await world.fleet.keep();
    assert.deepEqual(
      (await world.usable()).map(({ node }) => node),
      ['b'],
    );
  });
});

describe('a move whose target is lost before the volume is there, and whose PersistentVolume names the target already', () => {
  for (const isReplaced of [false, true]) {
    test(`can be cancelled, and the volume is used where it is: ${isReplaced ? 'by a new controller' : 'at once'}`, async () => {
      using scratch = new Scratch('rolled-back');
      await using world = await World.start(scratch, { sharesBlocks: true });
      await world.startPod();
      await world.fleet.command({ change: 'move', volume: id, node: 'b' });
      await world.fleet.told();
      world.record('b');
      await world.down('b');
      await world.stopPod();
      await world.fleet.command({ change: 'cancel', volume: id, node: 'a' });
      if (isReplaced) await world.fleet.replaceController();
      await world.fleet.told();
      assert.deepEqual(await world.fleet.moves.recordedSilent(id, 'a'), []);
      const request = { source_volume_id: id, name: 'backup', parameters: {}, secrets: {} };
      await world.fleet.call<wire.CreateSnapshotResponse>('CreateSnapshot', request);
      await world.fleet.command({ change: 'move', volume: id, node: 'c' });
      await world.rest(10_000);
      const usable = (await world.usable()).map(({ node }) => node);
      assert.deepEqual(usable, ['c']);
    });
  }
});
