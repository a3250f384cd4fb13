import assert from 'node:assert/strict';
import { symlinkSync } from 'node:fs';
import { describe, test } from 'node:test';
import { Scratch } from '../support/scratch.ts';
import { fails, TestDriver } from './controller-driver.ts';
import { until } from './wire-server.ts';

describe('Identity', () => {
  test('I01 I02 I03: a name, a version, no manifest', async () => {
    await using driver = await TestDriver.start();
    assert.deepEqual(await driver.client.identity.GetPluginInfo({}), {
      name: 'holdfast.csi.dev',
      vendor_version: '0.0.0-test',
      manifest: {},
    });
  });

  test('I04 I05 G06: the same capabilities in every mode, with and without working pools', async () => {
    const capabilitiesOf = async (driver: TestDriver) =>
      (await driver.client.identity.GetPluginCapabilities({})).capabilities.map(
        ({ service, volume_expansion }) => service?.type ?? volume_expansion?.type,
      );
    await using controller = await TestDriver.start({ expansion: 'controller' });
    await using node = await TestDriver.start({ expansion: 'node', failing: { main: 'its disk is gone' } });
    const expected = [
      'CONTROLLER_SERVICE',
      'VOLUME_ACCESSIBILITY_CONSTRAINTS',
      'GROUP_CONTROLLER_SERVICE',
      'SNAPSHOT_METADATA_SERVICE',
      'ONLINE',
    ];
    assert.deepEqual(await capabilitiesOf(controller), expected);
    assert.deepEqual(await capabilitiesOf(node), expected);
  });
});

describe('Probe', () => {
  test('I06: a healthy driver is ready', async () => {
    await using driver = await TestDriver.start();
    assert.deepEqual(await driver.client.identity.Probe({}), { ready: { value: true } });
  });

  test('I07: OK but not ready while a pool opens, ready once it is', async () => {
    let finish = () => {};
    const slow = new Promise<void>((resolve) => {
      finish = resolve;
    });
    await using driver = await TestDriver.start({ pools: { main: {}, slow: {} }, slow: { slow } });
    assert.deepEqual(await driver.client.identity.Probe({}), { ready: { value: false } });
    await fails(driver.controller.GetCapacity({ parameters: { pool: 'slow' } }), 'UNAVAILABLE', /being opened/);
    finish();
    await until(() => driver.pools.ready());
    assert.deepEqual(await driver.client.identity.Probe({}), { ready: { value: true } });
  });

  test('I08: a missing program is FAILED_PRECONDITION and named with its package, until it is there', async () => {
    using bin = new Scratch('bin');
    for (const program of ['mkfs.ext4', 'e2fsck', 'resize2fs', 'mkfs.btrfs'])
      symlinkSync('/bin/true', bin.join(program));
    await using driver = await TestDriver.start({ searchPath: `/nowhere:${bin.path}` });
    await fails(driver.client.identity.Probe({}), 'FAILED_PRECONDITION', /mkfs\.xfs .*xfsprogs/);
    symlinkSync('/bin/true', bin.join('mkfs.xfs'));
    assert.deepEqual(await driver.client.identity.Probe({}), { ready: { value: true } });
  });

  test('I08: no pool that works is FAILED_PRECONDITION, with the reason', async () => {
    await using driver = await TestDriver.start({ failing: { main: 'its disk is gone' } });
    await fails(driver.client.identity.Probe({}), 'FAILED_PRECONDITION', /its disk is gone/);
  });

  test('a broken pool beside one that works does not make the driver unhealthy', async () => {
    await using driver = await TestDriver.start({
      pools: { main: {}, other: {} },
      failing: { other: 'its disk is gone' },
    });
    assert.deepEqual(await driver.client.identity.Probe({}), { ready: { value: true } });
  });
});
