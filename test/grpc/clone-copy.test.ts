import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readdirSync, renameSync, writeSync } from 'node:fs';
import { describe, test } from 'node:test';
import { snapshotIdFor, volumeIdFor } from '../../src/volume/id.ts';
import { CallError } from '../support/client.ts';
import {
  block,
  create,
  fails,
  fromSnapshot,
  fromVolume,
  gate,
  gibibyte,
  listIds,
  makeSnapshot,
  makeVolume,
  mebibyte,
  mount,
  nodeId,
  snapshotOf,
  TestDriver,
  volumeOf,
} from './controller-driver.ts';
import { read, workload, write } from './workload.ts';

/** In a directory of the host's ext4, where files cannot share blocks: what is cloned is copied. */
const large = { capacity_range: { required_bytes: gibibyte }, volume_capabilities: [block()] };

/** Fills the image of a volume that is not in use, so that a copy of it takes a while. */
function fill(driver: TestDriver, id: string, bytes: number): void {
  const file = openSync(driver.scratch.join('main/volumes', id, 'data'), 'r+');
  const piece = randomBytes(16 << 20);
  for (let offset = 0; offset < bytes; offset += piece.length) writeSync(file, piece, 0, piece.length, offset);
  fsyncSync(file);
  closeSync(file);
}

describe('a pool whose filesystem cannot share blocks', () => {
  test('a volume in use is FAILED_PRECONDITION with reason and remedy, for a snapshot, a clone and a group', async () => {
    await using driver = await TestDriver.start();
    for (const [name, capability] of [
      ['mounted', mount('ext4')],
      ['raw', block()],
    ] as const) {
      await using source = await workload(driver, name, capability, {
        capacity_range: { required_bytes: 32n * mebibyte },
      });
      const remedy = /in use.*cannot share blocks.*Stop its pod.*XFS or btrfs/s;
      const request = { source_volume_id: source.id, name: 's' };
      await fails(driver.controller.CreateSnapshot(request), 'FAILED_PRECONDITION', remedy);
      const volume_content_source = fromVolume(source.id);
      const clone = create('c', { capacity_range: null, volume_capabilities: [capability], volume_content_source });
      await fails(driver.controller.CreateVolume(clone), 'FAILED_PRECONDITION', remedy);
      const group = { name: 'g', source_volume_ids: [source.id] };
      await fails(driver.client.groupController.CreateVolumeGroupSnapshot(group), 'FAILED_PRECONDITION', remedy);
    }
    assert.deepEqual((await driver.controller.ListSnapshots({})).entries, []);
    assert.deepEqual(readdirSync(driver.scratch.join('main/tmp')), []);
  });

  test('CV25 CV27: when nobody uses it any more, the copy has its data, in the full size', async () => {
    await using driver = await TestDriver.start();
    const capability = mount('ext4');
    const data = randomBytes(1 << 20);
    let id = '';
    {
      await using source = await workload(driver, 'source', capability, {
        capacity_range: { required_bytes: 64n * mebibyte },
      });
      write(`${source.path}/file`, data);
      id = source.id;
    }
    const snapshot = await makeSnapshot(driver, id, 's');
    for (const [name, volume_content_source] of [
      ['restored', fromSnapshot(snapshot)],
      ['cloned', fromVolume(id)],
    ] as const) {
      const changes = { capacity_range: { required_bytes: 128n * mebibyte }, volume_content_source };
      await using copy = await workload(driver, name, capability, changes);
      assert.ok(read(`${copy.path}/file`, data.length).equals(data));
      const { usage } = await driver.client.node.NodeGetVolumeStats({ volume_id: copy.id, volume_path: copy.path });
      assert.ok((usage.find(({ unit }) => unit === 'BYTES')?.total ?? 0n) > 100n * mebibyte);
    }
  });

  test('T02: a long copy outlives its client, and the retry joins it', async () => {
    await using driver = await TestDriver.start();
    const source = await makeVolume(driver, create('source', large));
    fill(driver, source, 512 << 20);
    const request = create('copy', { ...large, volume_content_source: fromVolume(source) });
    await fails(driver.controller.CreateVolume(request, { deadlineMs: 30 }), 'DEADLINE_EXCEEDED');
    const made = volumeOf(await driver.controller.CreateVolume(request));
    assert.deepEqual(await listIds(driver), [source, made.volume_id].sort());
    await driver.controller.DeleteVolume({ volume_id: source });
    const { status } = await driver.controller.ControllerGetVolume({ volume_id: made.volume_id });
    assert.equal(status?.volume_condition?.abnormal, false);
  });

  test('K05: while a copy is at work, only those that would change its source have to come back', async () => {
    await using driver = await TestDriver.start();
    const { controller } = driver;
    const source = await makeVolume(driver, create('source'));
    const other = await makeVolume(driver, create('other'));
    const work = gate();
    const copying = driver.objects.claim([{ object: source, isShared: true }], 'CreateVolume', () => work.opened);
    // Others that only read the same source.
    await makeVolume(driver, create('copy', { volume_content_source: fromVolume(source) }));
    await makeSnapshot(driver, source, 's');
    // Others of the pool, of every kind.
    await makeSnapshot(driver, other, 't');
    await makeVolume(driver, create('more', { volume_content_source: fromVolume(other) }));
    await controller.ListVolumes({});
    await controller.GetCapacity({});
    await driver.client.identity.Probe({});
    await controller.DeleteVolume({ volume_id: other });
    const capacity_range = { required_bytes: 32n * mebibyte };
    for (const call of [
      controller.DeleteVolume({ volume_id: source }),
      controller.ControllerExpandVolume({ volume_id: source, capacity_range }),
      controller.ControllerModifyVolume({ volume_id: source, mutable_parameters: { provisioning: 'thick' } }),
    ]) {
      await fails(call, 'ABORTED', /CreateVolume is still in progress/);
    }
    work.open();
    await copying;
    await controller.DeleteVolume({ volume_id: source });
  });

  test('LS08 CS08 CS09: a snapshot that is being copied is there for nobody before it is whole', async () => {
    await using driver = await TestDriver.start();
    const { controller } = driver;
    const source_volume_id = await makeVolume(driver, create('source', large));
    fill(driver, source_volume_id, 256 << 20);
    const snapshot_id = snapshotIdFor(nodeId, 's');
    let isCut = false;
    const cutting = controller.CreateSnapshot({ source_volume_id, name: 's' }).finally(() => {
      isCut = true;
    });
    let looks = 0;
    while (!isCut) {
      const { entries } = await controller.ListSnapshots({});
      assert.ok(entries.every((entry) => snapshotOf(entry).ready_to_use));
      const found = await controller.GetSnapshot({ snapshot_id }).catch((error: unknown) => error);
      if (found instanceof CallError) assert.equal(found.code, 'NOT_FOUND');
      else assert.deepEqual(found, await cutting);
      looks++;
    }
    assert.ok(looks > 1);
    assert.deepEqual((await controller.ListSnapshots({})).entries, [await cutting]);
  });

  test('T04: a copy whose driver went away before it was recorded is made anew under the same name', async () => {
    await using driver = await TestDriver.start();
    const source = await makeVolume(driver, create('source', { volume_capabilities: [block()] }));
    const request = create('copy', { volume_content_source: fromVolume(source) });
    const made = await driver.controller.CreateVolume(request);
    const id = volumeIdFor(nodeId, 'main', 'copy');
    const scratch = await driver.stop();
    // As if it had died between writing the record and renaming the draft.
    renameSync(scratch.join('main/volumes', id), scratch.join('main/tmp', `${id}.copy`));
    await using again = await TestDriver.start({}, scratch);
    assert.deepEqual(await again.controller.CreateVolume(request), made);
    assert.deepEqual(readdirSync(scratch.join('main/tmp')), []);
  });
});
