import assert from 'node:assert/strict';
import { rename, rm } from 'node:fs/promises';
import { describe, type TestContext, test } from 'node:test';
import { loopNumber } from '../../src/kernel/block/loop-sysfs.ts';
import { type Mount, readMountTable } from '../../src/kernel/mount/mount-table.ts';
import { deviceOfBtrfs, mountsOfDevices } from '../../src/kernel/mount/mounts-of-device.ts';
import { queue, run, scratch } from './fixture.ts';
import { mountAt, mountNew } from './mounting.ts';

/** A mounted btrfs, and its loop device. */
async function mounted(directory: string, name: string) {
  const path = await mountNew(directory, 'btrfs', { name });
  const mount = await mountAt(path);
  assert.ok(mount !== undefined);
  const device = await deviceOfBtrfs(queue, mount);
  assert.ok(device !== undefined && loopNumber(device) !== undefined);
  return { path, device, source: mount.source };
}

/** Another name of a device, which the kernel takes for that of the filesystem from now on, as udev's scan does. */
async function renameSource({ device }: { device: { major: number; minor: number } }, node: string): Promise<void> {
  await run('mknod', [node, 'b', `${device.major}`, `${device.minor}`]);
  await run('btrfs', ['device', 'scan', node]);
}

async function shown(devices: readonly { major: number; minor: number }[], target: string, mayAsk = true) {
  const table: readonly Mount[] = await readMountTable(queue);
  const shows = await mountsOfDevices(queue, table, { devices, mayAsk });
  const mount = table.find((each) => each.target === target);
  assert.ok(mount !== undefined);
  return devices.map((device) => shows(mount, device));
}

describe('the mounts of a btrfs', () => {
  async function two(t: TestContext) {
    const directory = await scratch(t);
    const [a, b] = [await mounted(directory, 'a'), await mounted(directory, 'b')];
    const devices = [a.device, b.device];
    const node = `${directory}/node`;
    await renameSource(a, node);
    assert.equal((await mountAt(a.path))?.source, node);
    return { a, b, devices, directory, node };
  }

  test('are known by the device, whatever name the kernel has for it', async (t) => {
    const { a, b, devices } = await two(t);
    assert.deepEqual(await shown(devices, a.path), [true, false]);
    assert.deepEqual(await shown(devices, a.path, false), [true, false]);
    assert.deepEqual(await shown(devices, b.path), [false, true]);
  });

  test('are known by the filesystem when the name is gone, or leads to another one by now', async (t) => {
    const { a, b, devices, directory, node } = await two(t);
    await rename(node, `${directory}/moved`);
    assert.deepEqual(await shown(devices, a.path), [true, false]);
    await run('mknod', [node, 'b', `${b.device.major}`, `${b.device.minor}`]);
    for (const { device, path } of [a, b]) {
      assert.deepEqual(
        await shown(devices, path),
        devices.map((each) => each === device),
      );
    }
  });

  test('are in doubt where no name and no path leads to them, unless the filesystem is found elsewhere', async (t) => {
    const { a, b, devices, node } = await two(t);
    await rm(node);
    await run('mount', ['-t', 'tmpfs', 'tmpfs', a.path]);
    assert.deepEqual(await shown(devices, a.path), [undefined, false]);
    assert.deepEqual(await shown(devices, b.path), [false, true]);
    assert.deepEqual(await shown(devices, b.path, false), [false, true]);
  });
});
