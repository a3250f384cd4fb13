import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startNamespace } from '../support/child.ts';
import { NodeHarness, rejects, run } from '../support/node-harness.ts';
import { blockCapability, mountCapability } from '../support/node-volume.ts';

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-propagation');
});
after(() => harness[Symbol.asyncDispose]());

const ext4 = { type: 'mount', fsType: 'ext4' } as const;

describe('the kubelet’s directory is shared, and visible at a second path', () => {
  let host: string;
  before(() => {
    host = harness.scratch.join('host');
    mkdirSync(host);
    run('mount', '--bind', harness.kubelet, harness.kubelet);
    run('mount', '--make-shared', harness.kubelet);
    run('mount', '--bind', harness.kubelet, host);
  });
  after(() => {
    run('umount', host);
    run('umount', harness.kubelet);
  });

  const elsewhere = (path: string) => path.replace(harness.kubelet, host);

  for (const mode of ['SINGLE_NODE_SINGLE_WRITER', 'SINGLE_NODE_WRITER'] as const) {
    test(`a volume is seen twice but published once: ${mode}`, async () => {
      const volume = await harness.volume(`shared-${mode}`, ext4);
      const volume_capability = mountCapability(mode);
      for (let i = 0; i < 2; i++) await volume.stage({ volume_capability });
      for (let i = 0; i < 2; i++) await volume.publish({ volume_capability });
      assert.equal(harness.mountsAt(elsewhere(volume.staging)).length, 1);
      assert.equal(harness.mountsAt(elsewhere(volume.target)).length, 1);
      const second = { volume_capability, target_path: `${volume.target}-second` };
      await rejects(volume.publish(second), 'FAILED_PRECONDITION');
      await rejects(volume.unstage(), 'FAILED_PRECONDITION');
      await volume.unpublish();
      assert.equal(harness.mountsAt(elsewhere(volume.target)).length, 0);
      await volume.unstage();
      assert.equal(harness.mountsAt(elsewhere(volume.staging)).length, 0);
      await harness.hasLoops(volume, 0);
    });
  }

  test('a block volume', async () => {
    const volume = await harness.volume('shared-block', { type: 'block' });
    const volume_capability = blockCapability('SINGLE_NODE_SINGLE_WRITER');
    await volume.stage({ volume_capability });
    await volume.publish({ volume_capability, readonly: true });
    await rejects(volume.unstage(), 'FAILED_PRECONDITION');
    await volume.down();
    await harness.hasLoops(volume, 0);
  });
});

describe('another mount namespace has a copy of the mounts', () => {
  test('they are undone here, done again, and it is the same filesystem', async () => {
    const volume = await harness.volume('namespace', ext4);
    await volume.stage();
    await volume.publish();
    writeFileSync(join(volume.target, 'file'), 'kept');
    await using _other = await startNamespace(harness.scratch.path);
    await volume.down();
    assert.ok(!existsSync(volume.target));
    await harness.hasLoops(volume, 1);
    await volume.stage();
    await volume.publish();
    assert.equal(readFileSync(join(volume.target, 'file'), 'utf8'), 'kept');
    await harness.hasLoops(volume, 1);
    await volume.down();
  });
});
