import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parseVolumeId } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { Frozen } from '../support/frozen.ts';
import type { Scratch } from '../support/scratch.ts';
import { fromSnapshot, makeSnapshot, mebibyte, mount, TestDriver } from './controller-driver.ts';
import { workload } from './workload.ts';

const capacity_range = { required_bytes: 320n * mebibyte };

/** Hides all that is mounted below the kubelet's directory, as an administrator's mistake would; shown on disposal. */
function hide(scratch: Scratch): Disposable {
  const place = scratch.join('kubelet');
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', place]);
  return { [Symbol.dispose]: () => execFileSync('umount', [place]) };
}

describe('a volume whose every mount something else is mounted over', () => {
  for (const fsType of ['ext4', 'xfs', 'btrfs']) {
    test(`CS13 ${fsType}: is frozen all the same, so that a snapshot has what was written last`, async () => {
      await using driver = await TestDriver.start({ locations: 'file' });
      const capability = mount(fsType);
      await using source = await workload(driver, 'source', capability, { capacity_range });
      const data = randomBytes(1 << 20);
      const file = openSync(join(source.path, 'file'), 'w');
      let snapshot = '';
      try {
        using _hidden = hide(driver.scratch);
        // Not synced: it is in memory only.
        writeSync(file, data);
        snapshot = await makeSnapshot(driver, source.id, 's');
      } finally {
        closeSync(file);
      }
      await using restored = await workload(driver, 'restored', capability, {
        capacity_range,
        volume_content_source: fromSnapshot(snapshot),
      });
      assert.ok(readFileSync(join(restored.path, 'file')).equals(data));
    });
  }

  test('a filesystem that has shut down is not called hidden', async () => {
    await using driver = await TestDriver.start({ locations: 'file' });
    const source = await workload(driver, 'source', mount('xfs'), { capacity_range });
    execFileSync('xfs_io', ['-x', '-c', 'shutdown -f', source.path]);
    const told = await makeSnapshot(driver, source.id, 's').then(
      () => assert.fail('a snapshot of a dead filesystem'),
      (error: unknown) => String(error),
    );
    assert.match(told, /mounted at .*, has shut down \(EIO\), see the node's kernel log: end its pods/);
    // As it says.
    await source[Symbol.asyncDispose]();
    await using again = await workload(driver, 'source', mount('xfs'), { capacity_range });
    await makeSnapshot(driver, again.id, 's');
  });

  test('T04: is thawed by the next start, too', async () => {
    const driver = await TestDriver.start({ locations: 'file' });
    const source = await workload(driver, 'source', mount('ext4'), { capacity_range });
    const scratch = await driver.stop();
    const id = parseVolumeId(source.id);
    assert.ok(id);
    using _frozen = await Frozen.byDriver(scratch, id, source.path, 'main');
    const hidden = hide(scratch);
    await using again = await TestDriver.start({ locations: 'file' }, scratch);
    hidden[Symbol.dispose]();
    const thaw = spawnSync('fsfreeze', ['--unfreeze', source.path], { encoding: 'utf8' });
    assert.match(thaw.stderr, /Invalid argument/, 'it was frozen still');
    await again.client.node.NodeUnpublishVolume({ volume_id: source.id, target_path: source.path });
    await again.client.node.NodeUnstageVolume({
      volume_id: source.id,
      staging_target_path: scratch.join('kubelet/source/globalmount'),
    });
    await eventually(() => assert.deepEqual(scratch.loops().length, 1));
  });

  test('MV04: gives back what it reserved and never wrote', async () => {
    await using driver = await TestDriver.start({ locations: 'file' });
    const parameters = { provisioning: 'thick' };
    await using source = await workload(driver, 'source', mount('ext4'), { capacity_range, parameters });
    using _hidden = hide(driver.scratch);
    await driver.controller.ControllerModifyVolume({
      volume_id: source.id,
      mutable_parameters: { provisioning: 'thin' },
    });
    const image = driver.scratch.join('data/pools/main/volumes', source.id, 'data');
    const blocks = Number(execFileSync('stat', ['--format=%b', image], { encoding: 'utf8' }));
    assert.ok(BigInt(blocks) * 512n < capacity_range.required_bytes / 2n, `${blocks} blocks`);
  });
});
