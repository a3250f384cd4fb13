import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { attachedDevices } from '../../src/pool/attached-device.ts';
import { ephemeralIdFor, type VolumeId } from '../../src/volume/id.ts';
import { eventually } from '../support/eventually.ts';
import { withHeader } from '../support/header-layer.ts';
import { openTestPool } from '../support/image-pool.ts';
import { NodeHarness, rejects, run } from '../support/node-harness.ts';
import { filesystems, mountCapability } from '../support/node-volume.ts';

/** A pool whose devices stay when their volumes are unmounted, as those of device-mapper do. */
const openPool = () =>
  openTestPool(harness.scratch, { layers: [(backend) => withHeader(backend, 'explicit')], undeleteSeconds: 0 });

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-detach');
  await harness.restart({ openPool });
});
after(() => harness[Symbol.asyncDispose]());

const ext4 = { type: 'mount', fsType: 'ext4' } as const;

async function devicesOf(id: VolumeId): Promise<string[]> {
  return (await attachedDevices(harness.pool, id)).map(({ devicePath }) => devicePath);
}

/**
 * Nothing of the volume is left: neither the device of the layer nor that below it. Somebody who looks at all disks may
 * have one of them open just then: the kernel detaches that one as soon as he closes it.
 */
function isDetached(id: VolumeId): Promise<void> {
  return eventually(async () => {
    assert.deepEqual(await devicesOf(id), []);
    assert.deepEqual(loopsOf(id), []);
  });
}

function loopsOf(id: VolumeId): string[] {
  const isOurs = (path: string) => path.startsWith(harness.scratch.path) && path.includes(id);
  return run('losetup', '--list', '--output', 'BACK-FILE').split('\n').filter(isOurs);
}

describe('a device that does not go by itself', () => {
  for (const { fsType, sizeBytes } of filesystems) {
    test(`US05: is detached by the unstage of its ${fsType}, and not before`, async () => {
      const volume = await harness.volume(`cycles-${fsType}`, { type: 'mount', fsType }, { sizeBytes });
      for (let i = 0; i < 2; i++) {
        await volume.stage();
        await volume.publish();
        const [device] = await devicesOf(volume.id);
        await volume.unpublish();
        await volume.stage();
        assert.deepEqual(await devicesOf(volume.id), [device]);
        await volume.unstage();
        await isDetached(volume.id);
        await volume.unstage();
      }
      await harness.pool.remove(volume.id);
    });
  }

  test('T04: is detached by the next unstage, if the driver died after the unmount', async () => {
    const volume = await harness.volume('unmounted', ext4);
    for (const forgetNotes of [undefined, true]) {
      await volume.stage();
      run('umount', volume.staging);
      assert.equal((await devicesOf(volume.id)).length, 1);
      if (forgetNotes === true) run('rm', harness.noteOf(volume));
      await volume.unstage();
      await isDetached(volume.id);
    }
  });

  test('T04: is detached when the pool is opened next, if nobody comes to unstage the volume', async () => {
    const left = await harness.volume('left', ext4);
    const staged = await harness.volume('staged', ext4);
    await left.stage();
    await staged.stage();
    run('umount', left.staging);
    await harness.restart({ openPool });
    await isDetached(left.id);
    assert.equal((await devicesOf(staged.id)).length, 1);
    await left.unstage();
    await staged.unstage();
  });

  test('US06: stays while the volume is published, although its staging path was unmounted', async () => {
    const volume = await harness.volume('published', ext4);
    await volume.stage();
    await volume.publish();
    run('umount', volume.staging);
    await rejects(volume.unstage(), 'FAILED_PRECONDITION');
    assert.equal((await devicesOf(volume.id)).length, 1);
    await volume.down();
    await isDetached(volume.id);
  });

  test('is detached when the volume cannot be mounted', async () => {
    const volume = await harness.volume('refused', ext4);
    const volume_capability = mountCapability('SINGLE_NODE_WRITER', ['no-such-option']);
    await rejects(volume.stage({ volume_capability }), 'INVALID_ARGUMENT');
    await isDetached(volume.id);
  });

  test('goes with its last user, if that is in another mount namespace', async () => {
    const volume = await harness.volume('elsewhere', ext4);
    await volume.stage();
    const elsewhere = await harness.workElsewhereIn(volume.staging);
    await volume.unstage();
    assert.equal((await devicesOf(volume.id)).length, 1);
    await elsewhere[Symbol.asyncDispose]();
    await isDetached(volume.id);
  });

  test('is detached before an inline volume is removed', async () => {
    const handle = `csi-${'0'.repeat(64)}`;
    const id = ephemeralIdFor('node', handle);
    const target_path = join(harness.kubelet, 'pods', handle, 'mount');
    mkdirSync(join(harness.kubelet, 'pods', handle));
    await harness.node.NodePublishVolume({
      volume_id: handle,
      target_path,
      volume_capability: mountCapability('SINGLE_NODE_MULTI_WRITER'),
      volume_context: { 'csi.storage.k8s.io/ephemeral': 'true', size: '64Mi' },
    });
    writeFileSync(join(target_path, 'file'), 'x');
    assert.equal((await devicesOf(id)).length, 1);
    await harness.node.NodeUnpublishVolume({ volume_id: handle, target_path });
    assert.ok(!existsSync(target_path));
    assert.equal(await harness.pool.find(id), undefined);
    await eventually(() => assert.deepEqual(loopsOf(id), []));
  });
});
