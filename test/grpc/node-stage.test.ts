import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { NodeHarness, rejects, run, sizeKiB } from '../support/node-harness.ts';
import { filesystems, mountCapability } from '../support/node-volume.ts';

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-stage');
});
after(() => harness[Symbol.asyncDispose]());

const ext4 = { type: 'mount', fsType: 'ext4' } as const;

describe('NodeStageVolume', () => {
  for (const { fsType, sizeBytes } of filesystems) {
    test(`${fsType}: mounts the filesystem that the volume was made with (A06)`, async () => {
      const volume = await harness.volume(`stage-${fsType}`, { type: 'mount', fsType }, { sizeBytes });
      await volume.stage();
      const [mount] = harness.mountsAt(volume.staging);
      assert.equal(mount?.fsType, fsType);
      assert.deepEqual(mount?.options, ['rw', 'relatime']);
      writeFileSync(join(volume.staging, 'file'), 'kept');
      await volume.unstage();
      assert.deepEqual(readdirSync(volume.staging), []);
      await volume.stage({ volume_capability: mountCapability('SINGLE_NODE_WRITER', [], fsType) });
      assert.equal(readFileSync(join(volume.staging, 'file'), 'utf8'), 'kept');
      await volume.unstage();
    });
  }

  test('ST04: ten times the same is once', async () => {
    const volume = await harness.volume('replayed', ext4);
    for (let i = 0; i < 10; i++) await volume.stage();
    assert.equal(harness.mountsAt(volume.staging).length, 1);
    await volume.unstage();
  });

  test('ST04, K01: equal calls at once are one', async () => {
    const volume = await harness.volume('at-once', ext4);
    await Promise.all(Array.from({ length: 20 }, () => volume.stage()));
    assert.equal(harness.mountsAt(volume.staging).length, 1);
    await volume.unstage();
    await harness.hasLoops(volume, 0);
  });

  test('T01, T02: a client that hangs up undoes nothing; its next try finds what the first one did', async () => {
    const volume = await harness.volume('hangs-up', ext4);
    const request = {
      volume_id: volume.id,
      staging_target_path: volume.staging,
      volume_capability: volume.capability,
    };
    for (let i = 0; i < 5; i++) {
      await rejects(harness.node.NodeStageVolume(request, { signal: AbortSignal.timeout(0) }), 'CANCELLED');
      await volume.stage();
      assert.equal(harness.mountsAt(volume.staging).length, 1);
      await volume.unstage();
    }
    await harness.hasLoops(volume, 0);
  });

  test('ST05: an unknown volume, and an id that is none', async () => {
    const volume = await harness.volume('unknown', ext4);
    await harness.pool.remove(volume.id);
    await rejects(volume.stage(), 'NOT_FOUND');
    for (const volume_id of ['x', '../../etc', `${volume.id}/../x`, `${volume.id}\n`, '/dev/loop0']) {
      await rejects(volume.stage({ volume_id }), 'NOT_FOUND');
    }
  });

  test('ST10: after somebody unmounted it, the same stage mounts it again', async () => {
    const volume = await harness.volume('unmounted', ext4);
    await volume.stage();
    await volume.publish();
    run('umount', volume.staging);
    await volume.stage();
    assert.equal(harness.mountsAt(volume.staging).length, 1);
    await harness.hasLoops(volume, 1);
    await volume.down();
  });

  test('ST10: after a reboot, which leaves notes but no mounts, any stage does', async () => {
    const volume = await harness.volume('rebooted', ext4);
    await volume.stage();
    await harness.stop();
    run('umount', volume.staging);
    harness.pretendReboot();
    await harness.start();
    await volume.stage({ volume_capability: mountCapability('SINGLE_NODE_MULTI_WRITER', ['noatime']) });
    assert.ok(harness.mountsAt(volume.staging)[0]?.options.includes('noatime'));
    await volume.unstage();
  });

  test('ST11: volume_context may have what orchestrators add, and nothing else', async () => {
    const volume = await harness.volume('context', ext4);
    await rejects(volume.stage({ volume_context: { pool: 'x' } }), 'INVALID_ARGUMENT');
    const volume_context = {
      'csi.storage.k8s.io/pod.name': 'p',
      'storage.kubernetes.io/csiProvisionerIdentity': '1-holdfast.csi.dev',
    };
    await volume.stage({ volume_context });
    await volume.unstage();
  });

  describe('mount flags', () => {
    test('PB20: are in the mount table', async () => {
      const volume = await harness.volume('flags', ext4);
      const forOthers = ['defaults', 'auto, nouser', 'x-systemd.device-timeout=30s', 'silent'];
      const flags = ['noatime, nosuid', 'nodev', 'noexec', 'commit=17', ...forOthers];
      await volume.stage({ volume_capability: mountCapability('SINGLE_NODE_WRITER', flags) });
      const [mount] = harness.mountsAt(volume.staging);
      for (const option of ['noatime', 'nosuid', 'nodev', 'noexec']) assert.ok(mount?.options.includes(option), option);
      assert.ok(mount?.superOptions.includes('commit=17'));
      await volume.unstage();
    });
    for (const flag of [
      'holdfast-secret',
      'commit=holdfast-secret',
      'remount',
      'bind',
      'loop=holdfast-secret',
      'shared',
    ]) {
      test(`A06, X02: ${flag} is refused, not repeated, and nothing stays mounted`, async () => {
        const volume = await harness.volume(`flag-${flag}`, ext4);
        const volume_capability = mountCapability('SINGLE_NODE_WRITER', ['noatime', flag]);
        const message = await rejects(volume.stage({ volume_capability }), 'INVALID_ARGUMENT');
        assert.ok(!message.includes('holdfast-secret') && !message.includes('noatime'), message);
        assert.deepEqual(harness.mountsAt(volume.staging), []);
        await harness.hasLoops(volume, 0);
        await volume.stage();
        await volume.unstage();
      });
    }
    test('X02: nothing of a flag is kept on the disk', async () => {
      const volume = await harness.volume('flag-notes', ext4);
      await volume.stage({ volume_capability: mountCapability('SINGLE_NODE_WRITER', ['noatime', 'commit=19']) });
      const notes = readFileSync(harness.noteOf(volume), 'utf8');
      assert.ok(!notes.includes('noatime') && !notes.includes('commit'), notes);
      await volume.unstage();
      assert.throws(() => readFileSync(harness.noteOf(volume)), { code: 'ENOENT' });
    });
  });

  test('A02: a reader-only volume is staged read-only', async () => {
    const volume = await harness.volume('reader', ext4);
    await volume.stage({ volume_capability: mountCapability('SINGLE_NODE_READER_ONLY') });
    assert.throws(() => writeFileSync(join(volume.staging, 'x'), ''), { code: 'EROFS' });
    await volume.unstage();
  });

  test('PB19: a filesystem smaller than its device has grown when it is staged', async () => {
    for (const { fsType, sizeBytes } of filesystems) {
      const volume = await harness.volume(`grown-${fsType}`, { type: 'mount', fsType }, { sizeBytes });
      await volume.stage();
      writeFileSync(join(volume.staging, 'file'), 'kept');
      await volume.unstage();
      await harness.pool.grow(volume.id, 1n << 30n);
      await volume.stage();
      const size = sizeKiB(volume.staging);
      assert.ok(size > 900 * 1024, `${fsType} has ${size} KiB`);
      assert.equal(readFileSync(join(volume.staging, 'file'), 'utf8'), 'kept');
      await volume.unstage();
    }
  });
});
