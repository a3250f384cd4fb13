import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, statfsSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { eventually } from '../support/eventually.ts';
import { openTestPool } from '../support/image-pool.ts';
import { NodeHarness, rejects, run } from '../support/node-harness.ts';
import { filesystems, mountCapability } from '../support/node-volume.ts';

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-stats');
});
after(() => harness[Symbol.asyncDispose]());

const ext4 = { type: 'mount', fsType: 'ext4' } as const;
const block = { type: 'block' } as const;

async function published(name: string, content: typeof ext4 | typeof block) {
  const volume = await harness.volume(name, content);
  await volume.stage();
  await volume.publish();
  return volume;
}

describe('NodeGetVolumeStats', () => {
  for (const { fsType, sizeBytes } of filesystems) {
    test(`VS06, VS07: ${fsType}: the volume's own bytes and inodes, at both paths`, async () => {
      const volume = await harness.volume(`usage-${fsType}`, { type: 'mount', fsType }, { sizeBytes });
      await volume.stage();
      await volume.publish();
      writeFileSync(join(volume.target, 'file'), Buffer.alloc(8 << 20, 1));
      run('sync', '-f', volume.target);
      for (const path of [volume.target, volume.staging]) {
        const { usage, volume_condition } = await volume.stats(path);
        const { bavail, bfree, blocks, bsize, files } = statfsSync(path, { bigint: true });
        const bytes = usage.find(({ unit }) => unit === 'BYTES');
        assert.equal(bytes?.total, blocks * bsize);
        assert.equal(bytes?.used, (blocks - bfree) * bsize);
        assert.equal(bytes?.available, bavail * bsize);
        assert.ok((bytes?.used ?? 0n) >= 8n << 20n && (bytes?.total ?? 0n) <= sizeBytes);
        const inodes = usage.find(({ unit }) => unit === 'INODES');
        assert.equal(inodes?.total, fsType === 'btrfs' ? undefined : files);
        assert.equal(volume_condition?.abnormal, false);
        assert.notEqual(volume_condition?.message, '');
      }
      await volume.down();
    });
  }

  test('VS05, VS06: block: its size, at the target and at the staging path', async () => {
    const volume = await published('usage-block', block);
    for (const path of [volume.target, volume.staging, join(volume.staging, volume.id)]) {
      const { usage, volume_condition } = await volume.stats(path);
      assert.deepEqual(usage, [{ unit: 'BYTES', total: 64n << 20n, used: 0n, available: 0n }]);
      assert.equal(volume_condition?.abnormal, false);
    }
    await volume.down();
  });

  describe('VS03, VS04, VS07: NOT_FOUND', () => {
    test('an unknown volume, with a relative path too', async () => {
      for (const volume_id of ['x', '../x', 'vol-aaaaaaaaaaaaaaaaaaaaaaaaaa']) {
        await rejects(harness.node.NodeGetVolumeStats({ volume_id, volume_path: 'some/path' }), 'NOT_FOUND');
        await rejects(harness.node.NodeGetVolumeStats({ volume_id, volume_path: '/some/path' }), 'NOT_FOUND');
      }
    });
    test('another place: relative, missing, unmounted, foreign, linked, the host', async () => {
      const volume = await published('elsewhere', ext4);
      const [plain, foreign, file, link] = ['plain', 'foreign', 'file', 'link'].map((name) =>
        join(volume.pod, name),
      ) as [string, string, string, string];
      mkdirSync(plain);
      mkdirSync(foreign);
      writeFileSync(file, '');
      symlinkSync(volume.target, link);
      run('mount', '-t', 'tmpfs', 'none', foreign);
      const inside = join(volume.target, 'lost+found');
      for (const path of [
        'some/path',
        volume.pod,
        plain,
        foreign,
        file,
        link,
        inside,
        `${file}/x`,
        '/',
        '/etc',
        harness.kubelet,
      ]) {
        await rejects(volume.stats(path), 'NOT_FOUND');
      }
      run('umount', foreign);
      await volume.unpublish();
      await rejects(volume.stats(), 'NOT_FOUND');
      await volume.unstage();
      await rejects(volume.stats(volume.staging), 'NOT_FOUND');
    });
    test('the path of another volume', async () => {
      const [a, b] = [await published('at-a', ext4), await published('at-b', block)];
      await rejects(a.stats(b.target), 'NOT_FOUND');
      await rejects(b.stats(a.target), 'NOT_FOUND');
      await rejects(b.stats(a.staging), 'NOT_FOUND');
      await Promise.all([a.down(), b.down()]);
    });
  });

  describe('VS08: the condition', () => {
    for (const { fsType, sizeBytes } of filesystems) {
      test(`${fsType} that has stopped writing`, async () => {
        const volume = await harness.volume(`stopped-${fsType}`, { type: 'mount', fsType }, { sizeBytes });
        await volume.stage();
        await volume.publish();
        assert.equal((await volume.stats()).volume_condition?.abnormal, false);
        harness.shutDown(volume);
        const { volume_condition } = await volume.stats();
        assert.equal(volume_condition?.abnormal, true);
        assert.match(volume_condition?.message ?? '', /read-only|shut down/);
        await volume.down();
      });
    }
    test('ext4 that an error made read-only', async () => {
      const volume = await harness.volume('emergency', ext4);
      await volume.stage({ volume_capability: onErrors('remount-ro') });
      await volume.publish({ volume_capability: onErrors('remount-ro') });
      run('bash', '-c', `echo 1 > /sys/fs/ext4/${loopName(volume.staging)}/trigger_fs_error`);
      const { usage, volume_condition } = await volume.stats();
      assert.equal(volume_condition?.abnormal, true);
      assert.equal(usage[0]?.unit, 'BYTES');
      await volume.down();
    });
    test('ext4 that goes on after an error', async () => {
      const volume = await harness.volume('errors', ext4);
      await volume.stage({ volume_capability: onErrors('continue') });
      await volume.publish({ volume_capability: onErrors('continue') });
      const facts = `/sys/fs/ext4/${loopName(volume.staging)}`;
      run('bash', '-c', `echo 1 > ${facts}/trigger_fs_error`);
      // ext4 counts its errors in the background.
      await eventually(() => assert.notEqual(readFileSync(`${facts}/errors_count`, 'utf8').trim(), '0'));
      const { volume_condition } = await volume.stats();
      assert.equal(volume_condition?.abnormal, true);
      assert.match(volume_condition?.message ?? '', /e2fsck/);
      await volume.down();
    });
    test('the image is missing, or too short', async () => {
      const volume = await published('image', ext4);
      truncateSync(harness.imageOf(volume), 1 << 20);
      assert.equal((await volume.stats()).volume_condition?.abnormal, true);
      run('rm', harness.imageOf(volume));
      const { volume_condition } = await volume.stats();
      assert.equal(volume_condition?.abnormal, true);
      assert.match(volume_condition?.message ?? '', /missing/);
      await volume.down();
    });
    test('a disk that does not answer: abnormal, and the call ends', async () => {
      const queue = new DiskQueue('hung', 1);
      await harness.restart({ openPool: () => openTestPool(harness.scratch, { queue }) });
      const volume = await published('hung', ext4);
      let wake = (): void => undefined;
      const hung = queue.run(() => new Promise<void>((resolve) => (wake = resolve)));
      const ask = async () => {
        const answers = await Promise.all([volume.stats(), volume.stats(), volume.stats(volume.staging)]);
        for (const { volume_condition } of answers) {
          assert.equal(volume_condition?.abnormal, true);
          assert.match(volume_condition?.message ?? '', /not answered/);
        }
      };
      try {
        await ask();
        // What hangs is asked once for each path, not once for each call. The driver's own looks wait here, too.
        const waiting = queue.waiting;
        await ask();
        assert.equal(queue.waiting, waiting);
      } finally {
        // Whatever came of it: nothing may wait for ever.
        wake();
        await hung;
      }
      assert.equal((await volume.stats()).volume_condition?.abnormal, false);
      await volume.down();
      await harness.restart();
    });
    test('the pool is not open', async () => {
      const volume = await published('pool', ext4);
      await harness.restart({ openPool: () => Promise.reject(new Error('this pool is broken')) });
      assert.equal((await volume.stats()).volume_condition?.abnormal, true);
      await harness.restart();
      await volume.down();
    });
  });
});

function onErrors(behaviour: 'continue' | 'remount-ro') {
  return mountCapability('SINGLE_NODE_WRITER', [`errors=${behaviour}`]);
}

function loopName(staging: string): string {
  const source = harness.mountsAt(staging)[0]?.source ?? '';
  return source.replace('/dev/', '');
}
