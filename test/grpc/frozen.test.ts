import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { Frozen } from '../support/frozen.ts';
import { TestVolume } from '../support/life.ts';
import type { Scratch } from '../support/scratch.ts';
import { create, fails, mebibyte, mount, TestDriver, volumeOf } from './controller-driver.ts';
import { workload } from './workload.ts';

const capacity_range = { required_bytes: 320n * mebibyte };

/** What an earlier test left frozen, mounted nowhere: thawed, so that its device goes. */
function thawUnseen(scratch: Scratch): void {
  const place = scratch.join('unseen');
  for (const device of scratch.loops()) {
    try {
      mkdirSync(place, { recursive: true });
      execFileSync('mount', [device, place], { stdio: 'ignore' });
      execFileSync('fsfreeze', ['--unfreeze', place], { stdio: 'ignore' });
      execFileSync('umount', [place], { stdio: 'ignore' });
    } catch {}
  }
}

for (const fsType of ['ext4', 'xfs', 'btrfs']) {
  describe(`a volume with ${fsType} that a backup's hook left frozen`, () => {
    test('US01 DV01: is thawed when it is unstaged, so that its device goes and the volume can be deleted', async () => {
      await using driver = await TestDriver.start({ locations: 'file' });
      try {
        const { id, path } = await published(driver);
        execFileSync('fsfreeze', ['--freeze', path]);
        const place = new TestVolume(driver.scratch, 'a', mount(fsType));
        await place.unpublish(driver.client, id);
        await place.unstage(driver.client, id);
        // The pool's own is left.
        await eventually(() => assert.equal(driver.scratch.loops().length, 1));
        await driver.controller.DeleteVolume({ volume_id: id });
      } finally {
        thawUnseen(driver.scratch);
      }
    });

    test('ST01: and unmounted behind the driver, takes writes when it is staged again', async () => {
      await using driver = await TestDriver.start({ locations: 'file' });
      try {
        const { id, path, place } = await published(driver);
        freezeAndUnmount(place);
        await place.stage(driver.client, id);
        await place.publish(driver.client, id);
        // Still frozen, it would make whoever writes wait, and nothing could end that.
        assert.notEqual(spawnSync('fsfreeze', ['--unfreeze', path], { stdio: 'ignore' }).status, 0);
        writeFileSync(`${path}/f`, 'writable');
        await place.tearDown(driver.client, id);
      } finally {
        thawUnseen(driver.scratch);
      }
    });

    test('DV01: and unmounted behind the driver, is deleted', async () => {
      await using driver = await TestDriver.start({ locations: 'file' });
      try {
        const { id, place } = await published(driver);
        freezeAndUnmount(place);
        await driver.controller.DeleteVolume({ volume_id: id });
      } finally {
        thawUnseen(driver.scratch);
      }
    });

    test('T04: and unmounted by an earlier driver, is thawed by the next start', async () => {
      const driver = await TestDriver.start({ locations: 'file' });
      const { place } = await published(driver);
      freezeAndUnmount(place);
      const scratch = await driver.stop();
      try {
        await using _again = await TestDriver.start({ locations: 'file' }, scratch);
        await eventually(() => assert.equal(scratch.loops().length, 1));
      } finally {
        thawUnseen(scratch);
      }
    });
  });

  async function published(driver: TestDriver) {
    const capability = mount(fsType);
    const request = create('a', { volume_capabilities: [capability], capacity_range });
    const { volume_id: id } = volumeOf(await driver.controller.CreateVolume(request));
    const place = new TestVolume(driver.scratch, 'a', capability);
    await place.stage(driver.client, id);
    await place.publish(driver.client, id);
    return { id, path: place.targetPath, place };
  }
}

function freezeAndUnmount({ stagingPath, targetPath }: TestVolume): void {
  execFileSync('fsfreeze', ['--freeze', targetPath]);
  execFileSync('umount', [targetPath]);
  execFileSync('umount', [stagingPath]);
}

for (const fsType of ['ext4', 'xfs']) {
  test(`VS08: ${fsType} that is frozen is told, and it is not healthy`, async () => {
    await using driver = await TestDriver.start({ locations: 'file' });
    await using inUse = await workload(driver, 'a', mount(fsType), { capacity_range });
    const look = async () =>
      (await driver.client.node.NodeGetVolumeStats({ volume_id: inUse.id, volume_path: inUse.path })).volume_condition;
    assert.equal((await look())?.abnormal, false);
    using frozen = Frozen.byHook(inUse.path);
    const condition = await look();
    assert.equal(condition?.abnormal, true);
    assert.match(condition?.message ?? '', /frozen.*fsfreeze --unfreeze/);
    frozen.thaw();
    assert.equal((await look())?.abnormal, false);
  });

  test(`NE05: ${fsType} that is frozen grows later, and is not waited for`, async () => {
    await using driver = await TestDriver.start({ locations: 'file' });
    await using inUse = await workload(driver, 'a', mount(fsType), { capacity_range });
    writeFileSync(`${inUse.path}/before`, 'before');
    using frozen = Frozen.byHook(inUse.path);
    const request = {
      volume_id: inUse.id,
      volume_path: inUse.path,
      capacity_range: { required_bytes: 640n * mebibyte },
    };
    await fails(driver.client.node.NodeExpandVolume(request), 'UNAVAILABLE', /its filesystem is frozen/);
    // H16: its device has grown already, and it is staged as it is.
    const { capacity_range: larger } = request;
    await driver.controller.ControllerExpandVolume({ volume_id: inUse.id, capacity_range: larger });
    await fails(driver.client.node.NodeExpandVolume(request), 'UNAVAILABLE', /its filesystem is frozen/);
    await new TestVolume(driver.scratch, 'a', mount(fsType)).stage(driver.client, inUse.id);
    frozen.thaw();
    assert.equal(readFileSync(`${inUse.path}/before`, 'utf8'), 'before');
  });
}
