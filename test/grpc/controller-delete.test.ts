import assert from 'node:assert/strict';
import { existsSync, readdirSync, rmSync, truncateSync } from 'node:fs';
import { describe, test } from 'node:test';
import { attachDevice } from '../../src/pool/attached-device.ts';
import { parseVolumeId, type VolumeId, volumeIdFor } from '../../src/volume/id.ts';
import { create, fails, gibibyte, listIds, mebibyte, nodeId, TestDriver, volumeOf } from './controller-driver.ts';

async function madeVolume(driver: TestDriver, name = 'a'): Promise<VolumeId> {
  const id = parseVolumeId(volumeOf(await driver.controller.CreateVolume(create(name))).volume_id);
  assert.ok(id);
  return id;
}

describe('DeleteVolume', () => {
  test('DV01: no id is INVALID_ARGUMENT', async () => {
    await using driver = await TestDriver.start();
    await fails(driver.controller.DeleteVolume({}), 'INVALID_ARGUMENT', /volume_id/);
  });

  test('DV02: an id that cannot be one of ours is OK, and is no path', async () => {
    await using driver = await TestDriver.start();
    const id = await madeVolume(driver);
    const traversals = [
      'x',
      '.',
      '..',
      '/',
      '/etc',
      '../volumes',
      `../volumes/${id}`,
      `./${id}`,
      `${id}/`,
      `${id}/..`,
      `${id}\n`,
      ` ${id}`,
      id.toUpperCase(),
      `${id}.x`,
      id.slice(0, -1),
      `${id}a`,
      'vol-',
      'vol-../../../../../../../../..',
      '%2e%2e%2f',
      '..\\..',
      '\u2025/\u2025',
      'vol-\uff41aaaaaaaaaaaaaaaaaaaaaaaaa',
      '$(rm -rf /)',
      'v'.repeat(128),
    ];
    for (const volume_id of traversals) await driver.controller.DeleteVolume({ volume_id });
    assert.deepEqual(await listIds(driver), [id]);
    assert.ok(existsSync(driver.scratch.join('main', 'volumes', id, 'data')));
  });

  test('L02: an id of more than 128 bytes is INVALID_ARGUMENT', async () => {
    await using driver = await TestDriver.start();
    await fails(driver.controller.DeleteVolume({ volume_id: 'ü'.repeat(65) }), 'INVALID_ARGUMENT', /volume_id/);
  });

  test('DV02 DV04: an unknown volume is OK, and so is one that was just deleted', async () => {
    await using driver = await TestDriver.start();
    await driver.controller.DeleteVolume({ volume_id: volumeIdFor(nodeId, 'main', 'never') });
    const volume_id = await madeVolume(driver);
    await driver.controller.DeleteVolume({ volume_id });
    await driver.controller.DeleteVolume({ volume_id, secrets: { key: 'any' } });
    assert.deepEqual(await listIds(driver), []);
  });

  test('DV03 DV05: what a volume took is free again', async () => {
    await using driver = await TestDriver.start({
      pools: { main: { reserveBytes: 0n } },
    });
    const request = create('a', {
      capacity_range: { required_bytes: gibibyte },
      parameters: { provisioning: 'thick' },
    });
    const { volume_id } = volumeOf(await driver.controller.CreateVolume(request));
    await driver.controller.DeleteVolume({ volume_id });
    await driver.pools.close();
    assert.deepEqual(readdirSync(driver.scratch.join('main', 'trash')), []);
    assert.deepEqual(readdirSync(driver.scratch.join('main', 'volumes')), []);
  });

  test('DV05: a volume whose image is gone, or whose directory is gone, can be deleted', async () => {
    await using driver = await TestDriver.start();
    const [withoutImage, withoutAnything] = [await madeVolume(driver, 'a'), await madeVolume(driver, 'b')];
    rmSync(driver.scratch.join('main', 'volumes', withoutImage, 'data'));
    rmSync(driver.scratch.join('main', 'volumes', withoutAnything), { recursive: true });
    await driver.controller.DeleteVolume({ volume_id: withoutImage });
    await driver.controller.DeleteVolume({ volume_id: withoutAnything });
    assert.deepEqual(await listIds(driver), []);
  });

  test('DV06: a volume in use is FAILED_PRECONDITION and untouched; afterwards it goes', async () => {
    await using driver = await TestDriver.start();
    const volume_id = await madeVolume(driver);
    const pool = driver.pool();
    const attached = await attachDevice(pool, volume_id, { persistent: true });
    await attached.release();
    await fails(driver.controller.DeleteVolume({ volume_id }), 'FAILED_PRECONDITION', new RegExp(volume_id));
    const { volume, status } = await driver.controller.ControllerGetVolume({ volume_id });
    assert.equal(volume?.capacity_bytes, 16n * mebibyte);
    assert.equal(status?.volume_condition?.abnormal, false);
    await pool.detach(attached);
    await driver.controller.DeleteVolume({ volume_id });
    assert.deepEqual(await listIds(driver), []);
  });

  test('DV08: not OK while a pool that may have it is not open', async () => {
    const pools = { pools: { main: {}, other: {} } };
    await using before = await TestDriver.start(pools);
    const volume_id = volumeOf(
      await before.controller.CreateVolume(create('a', { parameters: { pool: 'other' } })),
    ).volume_id;
    const elsewhere = await madeVolume(before, 'b');
    const scratch = await before.stop();
    await using driver = await TestDriver.start({ ...pools, failing: { other: 'its disk is gone' } }, scratch);
    await fails(driver.controller.DeleteVolume({ volume_id }), 'UNAVAILABLE', /other/);
    await driver.controller.DeleteVolume({ volume_id: elsewhere });
  });

  test('K01: 50 deletes at once are all OK', async () => {
    await using driver = await TestDriver.start();
    const volume_id = await madeVolume(driver);
    await Promise.all(Array.from({ length: 50 }, () => driver.controller.DeleteVolume({ volume_id })));
    assert.deepEqual(await listIds(driver), []);
  });

  test('a volume with a damaged image can be deleted', async () => {
    await using driver = await TestDriver.start();
    const volume_id = await madeVolume(driver);
    truncateSync(driver.scratch.join('main', 'volumes', volume_id, 'data'), 0);
    await driver.controller.DeleteVolume({ volume_id });
    assert.deepEqual(await listIds(driver), []);
  });
});
