import '../support/without-sys-resource.ts';
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { attachDevice } from '../../src/pool/attached-device.ts';
import { Child } from '../support/child.ts';
import { eventually } from '../support/eventually.ts';
import { NodeHarness, rejects, sizeKiB } from '../support/node-harness.ts';
import { filesystems, mountCapability, type TestVolume } from '../support/node-volume.ts';

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-elsewhere');
});
after(() => harness[Symbol.asyncDispose]());

const gibibyte = 1n << 30n;
const ext4 = { type: 'mount', fsType: 'ext4' } as const;

/** Staged and unstaged again, while somebody in another mount namespace has it from then on. */
async function keptElsewhere(volume: TestVolume, flags: string[] = []): Promise<AsyncDisposable> {
  await volume.stage({ volume_capability: mountCapability('SINGLE_NODE_WRITER', flags) });
  writeFileSync(join(volume.staging, 'file'), 'kept');
  const user = await harness.workElsewhereIn(volume.staging);
  await volume.unstage();
  return user;
}

describe('NodeStageVolume of a volume that is in use elsewhere on the node', () => {
  for (const { fsType, sizeBytes } of filesystems) {
    test(`PB19: ${fsType}: it is staged although it has grown, and grows now or when it can`, async () => {
      const volume = await harness.volume(`grown-${fsType}`, { type: 'mount', fsType }, { sizeBytes });
      await using user = await keptElsewhere(volume);
      await harness.pool.grow(volume.id, gibibyte);
      for (let i = 0; i < 2; i++) {
        await volume.stage();
        assert.equal(readFileSync(join(volume.staging, 'file'), 'utf8'), 'kept');
        // A mounted ext4 cannot grow here.
        if (fsType !== 'ext4') assert.ok(sizeKiB(volume.staging) > 900 * 1024);
        await volume.unstage();
      }
      await user[Symbol.asyncDispose]();
      await harness.hasLoops(volume, 0);
      await volume.stage();
      assert.ok(sizeKiB(volume.staging) > 900 * 1024);
      assert.equal(readFileSync(join(volume.staging, 'file'), 'utf8'), 'kept');
      await volume.unstage();
    });
  }

  for (const [program, hasGrown] of [
    ['e2fsck', true],
    ['resize2fs', true],
    ['somebody', true],
    ['somebody', false],
  ] as const) {
    const what = hasGrown ? ', once it has grown' : '';
    test(`by a program, ${program}, that has its device for itself${what}: named`, async () => {
      const volume = await harness.volume(`exclusive-${program}-${hasGrown}`, ext4);
      if (hasGrown) await harness.pool.grow(volume.id, gibibyte);
      const attachment = await attachDevice(harness.pool, volume.id, { persistent: false });
      // The kernel names a process after its program's file.
      const path = harness.scratch.join(program);
      copyFileSync('/usr/bin/sleep', path);
      const open = 'fd = os.open(sys.argv[1], os.O_RDWR | os.O_EXCL); os.set_inheritable(fd, True)';
      const source = `import os, sys; ${open}; os.execv(sys.argv[2], [sys.argv[2], '600'])`;
      const command = ['python3', '-c', source, attachment.devicePath, path];
      await using user = await Child.start(command, { becomes: program });
      await attachment.release();
      const words = new RegExp(`process ${user.pid} \\(${program}\\)`);
      await rejects(volume.stage(), program === 'somebody' ? 'FAILED_PRECONDITION' : 'ABORTED', words);
      assert.deepEqual(harness.mountsAt(volume.staging), []);
      await user[Symbol.asyncDispose]();
      await eventually(async () => void (await volume.stage()));
      if (hasGrown) assert.ok(sizeKiB(volume.staging) > 900 * 1024);
      await volume.unstage();
    });
  }

  test('ST07: with other options of the filesystem: it keeps those that it has, so it is refused', async () => {
    const volume = await harness.volume('options', ext4);
    await using user = await keptElsewhere(volume, ['noauto_da_alloc']);
    const stage = (...flags: string[]) =>
      volume.stage({ volume_capability: mountCapability('SINGLE_NODE_WRITER', flags) });
    const words = /keeps its options.*process \d+ \(sleep\)/;
    const message = await rejects(stage(), 'FAILED_PRECONDITION', words);
    assert.ok(!message.includes('da_alloc'));
    assert.deepEqual(harness.mountsAt(volume.staging), []);
    assert.equal(existsSync(harness.noteOf(volume)), false);
    await rejects(stage('nodelalloc'), 'FAILED_PRECONDITION', words);
    // The same again, and others of the mount alone, are as they are asked for.
    for (const flags of [['noauto_da_alloc'], ['noauto_da_alloc', 'noatime']]) {
      await stage(...flags);
      assert.ok(harness.mountsAt(volume.staging)[0]?.superOptions.includes('noauto_da_alloc'));
      await volume.unstage();
    }
    await rejects(stage(), 'FAILED_PRECONDITION', words);
    await user[Symbol.asyncDispose]();
    await eventually(async () => void (await stage()));
    assert.ok(!harness.mountsAt(volume.staging)[0]?.superOptions.includes('noauto_da_alloc'));
    await volume.unstage();
    await harness.hasLoops(volume, 0);
  });
});
