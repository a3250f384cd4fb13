import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { parseVolumeId, volumeIdFor } from '../../src/volume/id.ts';
import type { VolumeRecord } from '../../src/volume/record.ts';
import {
  block,
  create,
  fails,
  gate,
  listIds,
  makeVolume,
  mebibyte,
  mount,
  nodeId,
  TestDriver,
} from './controller-driver.ts';
import { workload } from './workload.ts';

type Parameters = Readonly<Record<string, string>>;

const modify = (driver: TestDriver, volume_id: string, mutable_parameters: Parameters) =>
  driver.controller.ControllerModifyVolume({ volume_id, mutable_parameters });

async function recordOf(driver: TestDriver, text: string): Promise<VolumeRecord | undefined> {
  const id = parseVolumeId(text);
  return id && (await driver.pool().find(id));
}

function allocatedBytes(driver: TestDriver, volumeId: string): number {
  return statSync(driver.scratch.join('main/volumes', volumeId, 'data')).blocks * 512;
}

const sizeBytes = 64 << 20;
const ext4 = create('a', {
  capacity_range: { required_bytes: BigInt(sizeBytes) },
  volume_capabilities: [mount('ext4')],
});

describe('CreateVolume with mutable parameters', () => {
  test('CV11 CV13: they go before the parameters, and what neither names is left to us', async () => {
    await using driver = await TestDriver.start();
    const parameters = { provisioning: 'thick', undelete: '1h' };
    const made = async (name: string, mutable_parameters: Parameters) => {
      const id = await makeVolume(driver, { ...ext4, name, parameters, mutable_parameters });
      const record = await recordOf(driver, id);
      return [record?.provisioning, record?.undeleteSeconds];
    };
    assert.deepEqual(await made('a', {}), ['thick', 3600]);
    assert.deepEqual(await made('b', { provisioning: 'thin' }), ['thin', 3600]);
    assert.deepEqual(await made('c', { undelete: '0' }), ['thick', 0]);
    assert.deepEqual(await made('d', { provisioning: 'thin', undelete: '2d' }), ['thin', 172_800]);
    const plain = await recordOf(driver, await makeVolume(driver, { ...ext4, name: 'e' }));
    assert.deepEqual([plain?.provisioning, plain?.undeleteSeconds], ['thin', undefined]);
  });

  const refused: Record<string, Draft<wire.CreateVolumeRequest>> = {
    'CV12: an unknown one': { mutable_parameters: { iops: '100' } },
    'CV12: one that is no mutable one': { mutable_parameters: { pool: 'main' } },
    'CV12: a provisioning that there is not': { mutable_parameters: { provisioning: 'fat' } },
    'CV12: an undelete that is no duration': { mutable_parameters: { undelete: 'soon' } },
    'CV10: an undelete in the class that is no duration': { parameters: { undelete: '1 day' } },
    'CV13: a class that is wrong, although overridden': {
      parameters: { provisioning: 'fat' },
      mutable_parameters: { provisioning: 'thin' },
    },
  };
  for (const [what, changes] of Object.entries(refused)) {
    test(`${what} is INVALID_ARGUMENT, and nothing is made`, async () => {
      await using driver = await TestDriver.start();
      await fails(driver.controller.CreateVolume(create('a', changes)), 'INVALID_ARGUMENT');
      assert.deepEqual(await listIds(driver), []);
    });
  }

  test('CV16: a replay asks for what it was made with, or for what it is after a modification; else ALREADY_EXISTS', async () => {
    await using driver = await TestDriver.start();
    const asking = (mutable_parameters: Parameters) => create('a', { mutable_parameters });
    const first = asking({ provisioning: 'thin', undelete: '1h' });
    const made = await driver.controller.CreateVolume(first);
    const volume_id = made.volume?.volume_id ?? '';
    const now = { provisioning: 'thick', undelete: '2h' };
    await fails(driver.controller.CreateVolume(asking(now)), 'ALREADY_EXISTS', /undelete is 1h/);
    await modify(driver, volume_id, now);
    await using again = await TestDriver.start({}, await driver.stop());
    for (const compatible of [first, asking(now), asking({ provisioning: 'thick', undelete: '60m' })]) {
      assert.deepEqual(await again.controller.CreateVolume(compatible), made);
    }
    for (const other of [{}, { undelete: '3h' }, { provisioning: 'thin' }]) {
      await fails(again.controller.CreateVolume(asking(other)), 'ALREADY_EXISTS', /undelete is 2h/);
    }
  });
});

describe('ControllerModifyVolume', () => {
  test('MV02 MV05: unknown and impossible ids are NOT_FOUND, without parameters it is INVALID_ARGUMENT', async () => {
    await using driver = await TestDriver.start();
    for (const volume_id of [volumeIdFor(nodeId, 'main', 'no such'), 'x', '../../etc']) {
      await fails(modify(driver, volume_id, { undelete: '1h' }), 'NOT_FOUND');
    }
    await fails(modify(driver, await makeVolume(driver, create('a')), {}), 'INVALID_ARGUMENT', /mutable_parameters/);
  });

  test('MV03 MV06: of good and bad ones together nothing is applied', async () => {
    await using driver = await TestDriver.start();
    const id = await makeVolume(driver, create('a'));
    const before = await recordOf(driver, id);
    for (const parameters of [
      { provisioning: 'thick', iops: '1' },
      { provisioning: 'thick', undelete: 'soon' },
      { undelete: '1h', provisioning: 'THICK' },
      { provisioning: 'thick', mkfsOptions: '' },
    ]) {
      await fails(modify(driver, id, parameters), 'INVALID_ARGUMENT');
    }
    assert.deepEqual(await recordOf(driver, id), before);
    assert.equal(allocatedBytes(driver, id), 0);
  });

  test('MV06: what cannot be done now is refused as a whole', async () => {
    await using driver = await TestDriver.start();
    await using source = await workload(driver, 'raw', block(), { parameters: { provisioning: 'thick' } });
    const before = await recordOf(driver, source.id);
    const both = { provisioning: 'thin', undelete: '1h' };
    await fails(modify(driver, source.id, both), 'FAILED_PRECONDITION', /in use without a mounted filesystem/);
    assert.deepEqual(await recordOf(driver, source.id), before);
  });

  test('MV07 MV08: one after another, each again, also while in use; it shows on the disk and survives a restart', async () => {
    await using driver = await TestDriver.start();
    const id = volumeIdFor(nodeId, 'main', 'a');
    {
      await using _inUse = await workload(driver, 'a', mount('ext4'), ext4);
      for (const _try of [1, 2]) await modify(driver, id, { undelete: '1h' });
      assert.ok(allocatedBytes(driver, id) < sizeBytes / 2);
      for (const _try of [1, 2]) await modify(driver, id, { provisioning: 'thick' });
      assert.ok(allocatedBytes(driver, id) >= sizeBytes);
    }
    await using again = await TestDriver.start({}, await driver.stop());
    const thick = await recordOf(again, id);
    assert.deepEqual([thick?.provisioning, thick?.undeleteSeconds], ['thick', 3600]);
    for (const _try of [1, 2]) await modify(again, id, { provisioning: 'thin', undelete: '0' });
    assert.ok(allocatedBytes(again, id) < sizeBytes / 2);
    const thin = await recordOf(again, id);
    assert.deepEqual([thin?.provisioning, thin?.undeleteSeconds], ['thin', 0]);
  });

  test('MV08: undelete decides what becomes of the volume when it is deleted', async () => {
    await using driver = await TestDriver.start();
    const ids = [];
    for (const name of ['a', 'b', 'c']) {
      ids.push(await makeVolume(driver, create(name, { parameters: { undelete: '1h' } })));
    }
    const [kept = '', gone = '', longer = ''] = ids;
    await modify(driver, gone, { undelete: '0' });
    await modify(driver, longer, { undelete: '30d', 'csi.storage.k8s.io/pvc/name': 'claim' });
    for (const volume_id of ids) await driver.controller.DeleteVolume({ volume_id });
    const trashed = new Map(
      (await driver.pool().trash()).map(({ deletedAt, purgeAt, record }) => [
        `${record.id}`,
        (Date.parse(purgeAt) - Date.parse(deletedAt)) / 1000,
      ]),
    );
    assert.deepEqual([trashed.get(kept), trashed.get(gone), trashed.get(longer)], [3600, undefined, 30 * 86_400]);
  });

  test('MV04: thick without room is RESOURCE_EXHAUSTED, and it stays thin', async () => {
    await using driver = await TestDriver.start({ locations: 'file', pools: { main: { overcommit: 4 } } });
    const { available_capacity } = await driver.controller.GetCapacity({});
    const capacity_range = { required_bytes: (available_capacity / 2n / 4096n) * 4096n };
    const id = await makeVolume(driver, create('a', { capacity_range }));
    await fails(modify(driver, id, { provisioning: 'thick' }), 'RESOURCE_EXHAUSTED');
    assert.equal((await recordOf(driver, id))?.provisioning, 'thin');
  });

  test('K01: ABORTED while another call is at work on the volume', async () => {
    await using driver = await TestDriver.start();
    const id = await makeVolume(driver, create('a'));
    const work = gate();
    const other = driver.objects.run(id, 'SomeCall', '', () => work.opened);
    await fails(modify(driver, id, { undelete: '1h' }), 'ABORTED', /SomeCall/);
    work.open();
    await other;
    await modify(driver, id, { undelete: '1h' });
  });
});

describe('ValidateVolumeCapabilities with mutable parameters', () => {
  test('VC06 VC07: confirmed and echoed if the volume has them now, else not', async () => {
    await using driver = await TestDriver.start();
    const parameters = { provisioning: 'thin', undelete: '1h' };
    const volume_id = await makeVolume(driver, { ...ext4, parameters });
    const validate = (mutable_parameters: Parameters, ofClass: Parameters = {}) =>
      driver.controller.ValidateVolumeCapabilities({
        volume_id,
        volume_capabilities: [mount('ext4')],
        parameters: ofClass,
        mutable_parameters,
      });
    for (const matching of [{}, { provisioning: 'thin' }, { undelete: '60m' }, parameters]) {
      const answer = await validate(matching);
      assert.equal(answer.message, '');
      assert.deepEqual(answer.confirmed?.mutable_parameters, matching);
    }
    for (const other of [{ provisioning: 'thick' }, { undelete: '2h' }, { iops: '1' }, { undelete: 'soon' }]) {
      const answer = await validate(other);
      assert.equal(answer.confirmed, null);
      assert.notEqual(answer.message, '');
    }
    await modify(driver, volume_id, { provisioning: 'thick', undelete: '2h' });
    assert.equal((await validate({ provisioning: 'thin' })).confirmed, null);
    assert.ok((await validate({ provisioning: 'thick', undelete: '2h' })).confirmed);
    // The class is still the one that it was made with.
    assert.ok((await validate({}, parameters)).confirmed);
    assert.ok((await validate({}, { provisioning: 'thick' })).confirmed);
    assert.equal((await validate({}, { undelete: '3h' })).confirmed, null);
  });

  test('GC02: undelete in a class makes no difference to what can be had', async () => {
    await using driver = await TestDriver.start();
    const plain = await driver.controller.GetCapacity({});
    const keeping = await driver.controller.GetCapacity({ parameters: { undelete: '24h' } });
    assert.ok(keeping.available_capacity > 0n);
    assert.ok(plain.available_capacity - keeping.available_capacity < 1024n * mebibyte);
  });
});
