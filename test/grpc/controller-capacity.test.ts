import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';
import type * as wire from '../../src/csi/generated/types.ts';
import type { Draft } from '../../src/csi/handler.ts';
import { Scratch } from '../support/scratch.ts';
import {
  block,
  create,
  fails,
  gibibyte,
  here,
  listIds,
  mebibyte,
  mount,
  TestDriver,
  type TestDriverOptions,
} from './controller-driver.ts';

/** A pool with a filesystem of its own: nobody else's files change what is free in it. */
function ownFilesystem(scratch: Scratch, overcommit = 1): TestDriverOptions {
  const location = { type: 'file', path: scratch.join('pool.img'), sizeBytes: 2n * gibibyte } as const;
  return { pools: { main: { location, overcommit } } };
}

/** XFS frees what was deleted in the background. Freezing waits for it, so that free space changes by our calls only. */
function settle(driver: TestDriver): void {
  const root = driver.scratch.join('data', 'pools', 'main');
  execFileSync('fsfreeze', ['--freeze', root]);
  execFileSync('fsfreeze', ['--unfreeze', root]);
}

describe('GetCapacity', () => {
  test('GC01: an empty request is about the default pool', async () => {
    const scratch = new Scratch('controller');
    await using driver = await TestDriver.start(ownFilesystem(scratch), scratch);
    const { available_capacity, maximum_volume_size } = await driver.controller.GetCapacity({});
    assert.ok(available_capacity > gibibyte && available_capacity < 2n * gibibyte);
    assert.equal(maximum_volume_size?.value, available_capacity);
  });

  for (const [kind, capability, minimum] of [
    ['block', block(), 4096n],
    ['ext4', mount('ext4'), 16n * mebibyte],
    ['xfs', mount('xfs'), 300n * mebibyte],
    ['btrfs', mount('btrfs'), 256n * mebibyte],
  ] as const) {
    for (const provisioning of ['thin', 'thick']) {
      test(`GC03: a ${provisioning} ${kind} volume of the reported maximum fits, one granule more does not`, async () => {
        const scratch = new Scratch('controller');
        await using driver = await TestDriver.start(ownFilesystem(scratch), scratch);
        settle(driver);
        const asked = { volume_capabilities: [capability], parameters: { provisioning } };
        const { maximum_volume_size, minimum_volume_size } = await driver.controller.GetCapacity(asked);
        assert.equal(minimum_volume_size?.value, minimum);
        const largest = maximum_volume_size?.value ?? 0n;
        const tooLarge = create('a', { ...asked, capacity_range: { required_bytes: largest + 4096n } });
        await fails(driver.controller.CreateVolume(tooLarge), 'RESOURCE_EXHAUSTED');
        await driver.controller.CreateVolume(create('a', { ...asked, capacity_range: { required_bytes: largest } }));
        const after = await driver.controller.GetCapacity(asked);
        assert.equal(after.available_capacity, 0n);
      });
    }
  }

  test('GC03: a volume of the reported minimum can be made', async () => {
    await using driver = await TestDriver.start();
    for (const fsType of ['ext4', 'xfs', 'btrfs']) {
      const volume_capabilities = [mount(fsType)];
      const { minimum_volume_size } = await driver.controller.GetCapacity({ volume_capabilities });
      const value = minimum_volume_size?.value ?? 0n;
      const capacity_range = { required_bytes: value, limit_bytes: value };
      await driver.controller.CreateVolume(create(fsType, { volume_capabilities, capacity_range }));
    }
  });

  test('GC04: what an empty thin volume may still claim is not available', async () => {
    const scratch = new Scratch('controller');
    await using driver = await TestDriver.start(ownFilesystem(scratch), scratch);
    const before = (await driver.controller.GetCapacity({})).available_capacity;
    await driver.controller.CreateVolume(create('a', { capacity_range: { required_bytes: gibibyte } }));
    const after = (await driver.controller.GetCapacity({})).available_capacity;
    assert.ok(before - after >= gibibyte && before - after < gibibyte + mebibyte, `${before - after}`);
  });

  test('GC04: overcommit promises thin volumes more than there is, and thick ones not', async () => {
    const scratch = new Scratch('controller');
    await using driver = await TestDriver.start(ownFilesystem(scratch, 3), scratch);
    const asked = async (provisioning: string) =>
      (await driver.controller.GetCapacity({ parameters: { provisioning } })).available_capacity;
    assert.ok((await asked('thin')) > 4n * gibibyte);
    const thick = await asked('thick');
    assert.ok(thick < 2n * gibibyte);
    const request = { parameters: { provisioning: 'thick' }, capacity_range: { required_bytes: thick } };
    await driver.controller.CreateVolume(create('a', request));
  });

  test('CV20: a thick volume that does not fit on the disk is RESOURCE_EXHAUSTED, and leaves nothing behind', async () => {
    const scratch = new Scratch('controller');
    await using driver = await TestDriver.start(ownFilesystem(scratch, 3), scratch);
    settle(driver);
    const { available_capacity } = await driver.controller.GetCapacity({});
    const request = { parameters: { provisioning: 'thick' }, capacity_range: { required_bytes: 3n * gibibyte } };
    await fails(driver.controller.CreateVolume(create('a', request)), 'RESOURCE_EXHAUSTED', /main/);
    assert.deepEqual(await listIds(driver), []);
    settle(driver);
    assert.equal((await driver.controller.GetCapacity({})).available_capacity, available_capacity);
  });

  const impossible: Record<string, Draft<wire.GetCapacityRequest>> = {
    'Y05: another node': { accessible_topology: { segments: { 'topology.holdfast.dev/node': 'node-2' } } },
    'a place that we do not know': { accessible_topology: { segments: { zone: 'a' } } },
    'a pool that this node has not': { parameters: { pool: 'elsewhere' } },
    'A05: several nodes': { volume_capabilities: [mount('', 'MULTI_NODE_MULTI_WRITER')] },
    'A04: an unknown filesystem': { volume_capabilities: [mount('ntfs')] },
    'A03: block and mount': { volume_capabilities: [mount(), block()] },
    'A03: two filesystems': { volume_capabilities: [mount('xfs'), mount('ext4')] },
  };
  for (const [what, request] of Object.entries(impossible)) {
    test(`GC02: ${what} has a capacity of 0`, async () => {
      await using driver = await TestDriver.start();
      const { available_capacity, maximum_volume_size } = await driver.controller.GetCapacity(request);
      assert.equal(available_capacity, 0n);
      assert.equal(maximum_volume_size, null);
    });
  }

  test('GC02: this node, by its topology, has what it has', async () => {
    await using driver = await TestDriver.start();
    const { available_capacity } = await driver.controller.GetCapacity({
      accessible_topology: { segments: here },
      parameters: { pool: 'main', 'csi.storage.k8s.io/x': 'y' },
      volume_capabilities: [mount('xfs')],
    });
    assert.ok(available_capacity > 0n);
  });

  test('a class that is wrong in itself has room: its pods would wait without a word, and CreateVolume says why', async () => {
    await using driver = await TestDriver.start();
    for (const parameters of [
      { size: '1' },
      { provisioning: 'fat' },
      { undelete: 'never' },
      { mkfsOptions: '-d /etc' },
    ]) {
      assert.ok((await driver.controller.GetCapacity({ parameters })).available_capacity > 0n);
      await fails(driver.controller.CreateVolume(create('a', { parameters })), 'INVALID_ARGUMENT');
    }
  });

  test('GC02: less than the smallest xfs is nothing for xfs', async () => {
    const scratch = new Scratch('controller');
    await using driver = await TestDriver.start(ownFilesystem(scratch), scratch);
    const { available_capacity } = await driver.controller.GetCapacity({});
    const required_bytes = available_capacity - 200n * mebibyte;
    await driver.controller.CreateVolume(create('a', { capacity_range: { required_bytes } }));
    const left = async (capability: Draft<wire.VolumeCapability>) =>
      (await driver.controller.GetCapacity({ volume_capabilities: [capability] })).available_capacity;
    assert.equal(await left(mount('xfs')), 0n);
    assert.ok((await left(mount('ext4'))) > 0n);
  });

  const invalid: Record<string, Draft<wire.GetCapacityRequest>> = {
    'L13: access mode UNKNOWN': { volume_capabilities: [mount('', 'UNKNOWN')] },
    'L14: no access type': { volume_capabilities: [{ access_mode: { mode: 'SINGLE_NODE_WRITER' } }] },
    'Y01: a malformed topology': { accessible_topology: { segments: { '/': 'x' } } },
  };
  for (const [what, request] of Object.entries(invalid)) {
    test(`${what} is INVALID_ARGUMENT`, async () => {
      await using driver = await TestDriver.start();
      await fails(driver.controller.GetCapacity(request), 'INVALID_ARGUMENT');
    });
  }

  test('a pool that is not open is UNAVAILABLE: 0 would be a lie', async () => {
    await using driver = await TestDriver.start({
      pools: { main: {}, other: {} },
      failing: { other: 'its disk is gone' },
    });
    await fails(driver.controller.GetCapacity({ parameters: { pool: 'other' } }), 'UNAVAILABLE', /its disk is gone/);
    await driver.controller.GetCapacity({});
  });
});
