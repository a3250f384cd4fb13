import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CallError } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';
import { ApiDouble } from './support/api-double.ts';
import { ControllerProcess } from './support/controller-process.ts';
import { LinkedNode, volumeOn, writer } from './support/fleet.ts';

const raw = { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } } as const;

describe('two controllers and three nodes', () => {
  test('a life: every call goes where its volume is, by either controller', async () => {
    using scratch = new Scratch('fleet');
    await using api = await ApiDouble.start();
    for (const name of ['node-a', 'node-b', 'node-c']) api.known.csiNodes.add(name);
    await using first = await ControllerProcess.start(scratch, api, 'first');
    await using second = await ControllerProcess.start(scratch, api, 'second');
    const both = [first, second];
    await using a = await LinkedNode.start(api, 'node-a', both);
    await using b = await LinkedNode.start(api, 'node-b', both);
    using one = first.connect();
    using other = second.connect();

    // node-c has not come: what nobody has may be its.
    await Promise.all(
      both.flatMap((replica) => [a, b].map(({ name }) => replica.logged('inventory complete', { node: name }))),
    );
    const never = 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa';
    await assert.rejects(one.controller.DeleteVolume({ volume_id: never }), isUnavailable(/node-c is away since/));
    await assert.rejects(one.controller.ListVolumes({}), isUnavailable(/node-c is away since/));

    const { volume } = await one.controller.CreateVolume(volumeOn('node-b', 'pvc-1'));
    const id = volume?.volume_id ?? '';
    assert.deepEqual(volume?.accessible_topology, [{ segments: { 'topology.holdfast.dev/node': 'node-b' } }]);
    using direct = b.driver.connect();
    assert.equal((await direct.controller.ControllerGetVolume({ volume_id: id })).volume?.volume_id, id);
    // The other replica hears of it from the node.
    await eventually(async () => {
      const seen = await other.controller.ControllerGetVolume({ volume_id: id });
      assert.equal(seen.volume?.capacity_bytes, 64n << 20n);
    });
    assert.deepEqual((await other.controller.CreateVolume(volumeOn('node-b', 'pvc-1'))).volume, volume, 'T03');

    await using c = await LinkedNode.start(api, 'node-c', both);
    await Promise.all(both.map((replica) => replica.logged('inventory complete', { node: c.name })));
    const ids = [id];
    for (const [node, name] of [
      ['node-a', 'pvc-2'],
      ['node-c', 'pvc-3'],
      ['node-a', 'pvc-4'],
    ] as const) {
      ids.push((await other.controller.CreateVolume(volumeOn(node, name))).volume?.volume_id ?? '');
    }
    ids.sort();
    await eventually(async () => {
      const listed: string[] = [];
      let token = '';
      do {
        const page = await one.controller.ListVolumes({ max_entries: 2, starting_token: token });
        listed.push(...page.entries.map((entry) => entry.volume?.volume_id ?? ''));
        token = page.next_token;
      } while (token !== '');
      assert.deepEqual(listed, ids);
    });

    const grown = await one.controller.ControllerExpandVolume({
      volume_id: id,
      capacity_range: { required_bytes: 80n << 20n },
      volume_capability: writer,
    });
    assert.equal(grown.capacity_bytes, 80n << 20n, 'offline, without a pod');

    const { snapshot } = await other.controller.CreateSnapshot({ source_volume_id: id, name: 'snap-1' });
    const snapshotId = snapshot?.snapshot_id ?? '';
    const source = { snapshot: { snapshot_id: snapshotId } };
    const copy = await other.controller.CreateVolume({
      ...volumeOn('node-b', 'pvc-5'),
      capacity_range: { required_bytes: 80n << 20n },
      volume_content_source: source,
    });
    ids.push(copy.volume?.volume_id ?? '');
    await assert.rejects(
      other.controller.CreateVolume({ ...volumeOn('node-a', 'pvc-6'), volume_content_source: source }),
      (error) =>
        error instanceof CallError && error.code === 'RESOURCE_EXHAUSTED' && /is on node-b/.test(error.message),
    );
    const members = await one.controller.ListVolumes({});
    const onA = members.entries.filter(
      (entry) => entry.volume?.accessible_topology[0]?.segments['topology.holdfast.dev/node'] === 'node-a',
    );
    const group = { name: 'group-1', source_volume_ids: [id, onA[0]?.volume?.volume_id ?? ''] };
    await assert.rejects(
      one.groupController.CreateVolumeGroupSnapshot(group),
      (error) =>
        error instanceof CallError &&
        error.code === 'FAILED_PRECONDITION' &&
        /is on node-b.*is on node-a/.test(error.message),
    );
    const together = { name: 'group-1', source_volume_ids: onA.map((entry) => entry.volume?.volume_id ?? '') };
    const { group_snapshot } = await one.groupController.CreateVolumeGroupSnapshot(together);
    const memberIds = group_snapshot?.snapshots.map((member) => member.snapshot_id) ?? [];
    assert.equal(memberIds.length, 2);
    await eventually(async () => {
      const { entries } = await other.controller.ListSnapshots({});
      assert.deepEqual(entries.map((entry) => entry.snapshot?.snapshot_id).sort(), [...memberIds, snapshotId].sort());
    });
    await other.groupController.DeleteVolumeGroupSnapshot({
      group_snapshot_id: group_snapshot?.group_snapshot_id ?? '',
      snapshot_ids: memberIds,
    });
    await other.controller.DeleteSnapshot({ snapshot_id: snapshotId });
    for (const volume_id of ids) await one.controller.DeleteVolume({ volume_id });
    await eventually(async () => assert.deepEqual((await other.controller.ListVolumes({})).entries, []));
    // Nobody has it, and all say so.
    await one.controller.DeleteVolume({ volume_id: never });
    await assert.rejects(one.controller.ControllerGetVolume({ volume_id: never }), isCode('NOT_FOUND'));
  });

  test('GetCapacity is told by the nodes; the blocks of a snapshot come as a stream through the link', async () => {
    using scratch = new Scratch('fleet');
    await using api = await ApiDouble.start();
    api.known.csiNodes.add('node-a');
    await using controller = await ControllerProcess.start(scratch, api, 'only');
    await using a = await LinkedNode.start(api, 'node-a', [controller]);
    await controller.logged('inventory complete', { node: 'node-a' });
    using client = controller.connect();
    using direct = a.driver.connect();
    const accessible_topology = { segments: { 'topology.holdfast.dev/node': 'node-a' } };
    const told = await client.controller.GetCapacity({ accessible_topology });
    assert.ok(told.available_capacity > 0n);
    assert.ok((told.maximum_volume_size?.value ?? 0n) > 0n);
    const elsewhere = { segments: { 'topology.holdfast.dev/node': 'node-b' } };
    assert.equal((await client.controller.GetCapacity({ accessible_topology: elsewhere })).available_capacity, 0n);

    const request = {
      ...volumeOn('node-a', 'raw'),
      volume_capabilities: [raw],
      capacity_range: { required_bytes: 1n << 30n },
    };
    const { volume } = await client.controller.CreateVolume(request);
    await eventually(async () => {
      const now = await client.controller.GetCapacity({ accessible_topology });
      assert.ok(now.available_capacity < told.available_capacity, 'what changed is told');
    });
    const { snapshot } = await client.controller.CreateSnapshot({
      source_volume_id: volume?.volume_id ?? '',
      name: 'raw-1',
    });
    const wanted = { snapshot_id: snapshot?.snapshot_id ?? '' };
    assert.deepEqual(
      await client.snapshotMetadata.GetMetadataAllocated(wanted),
      await direct.snapshotMetadata.GetMetadataAllocated(wanted),
    );
    const gone = { snapshot_id: 'snap-aaaaaaaaaaaaaaaaaaaaaaaaaa' };
    await assert.rejects(client.snapshotMetadata.GetMetadataAllocated(gone), isCode('NOT_FOUND'));
  });
});

function isUnavailable(message: RegExp) {
  return (error: unknown) => error instanceof CallError && error.code === 'UNAVAILABLE' && message.test(error.message);
}

function isCode(code: string) {
  return (error: unknown) => error instanceof CallError && error.code === code;
}
