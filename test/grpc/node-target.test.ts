import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { BeforeStep } from '../support/before-step.ts';
import { NodeHarness, rejects, run } from '../support/node-harness.ts';
import { mountCapability } from '../support/node-volume.ts';

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-target');
});
after(() => harness[Symbol.asyncDispose]());

const ext4 = { type: 'mount', fsType: 'ext4' } as const;

function staged(name: string, capability = mountCapability()) {
  return harness.staged(name, ext4, capability);
}

describe('the target of NodePublishVolume', () => {
  describe('PB16: the target path', () => {
    test('an empty directory is used, and removed at the end', async () => {
      const volume = await staged('target-there');
      mkdirSync(volume.target);
      await volume.publish();
      assert.equal(harness.mountsAt(volume.target).length, 1);
      await volume.unpublish();
      assert.ok(!existsSync(volume.target));
      await volume.unstage();
    });
    test('a missing parent is not made', async () => {
      const volume = await staged('target-no-parent');
      const target_path = join(volume.pod, 'a', 'b');
      await rejects(volume.publish({ target_path }), 'FAILED_PRECONDITION');
      assert.ok(!existsSync(join(volume.pod, 'a')));
      await volume.unstage();
    });
    test('relative, outside of the allowed directories, with .. or too long', async () => {
      const volume = await staged('target-wrong');
      const tooLong = join(volume.pod, 'x'.repeat(256));
      for (const target_path of ['pods/x', '/etc/holdfast', `${volume.pod}/../../../etc`, harness.kubelet, tooLong]) {
        await rejects(volume.publish({ target_path }), 'INVALID_ARGUMENT');
      }
      await volume.unstage();
    });
    test('a directory with data, and a file', async () => {
      const volume = await staged('target-data');
      mkdirSync(volume.target);
      writeFileSync(join(volume.target, 'precious'), 'data');
      await rejects(volume.publish(), 'ALREADY_EXISTS');
      assert.equal(readFileSync(join(volume.target, 'precious'), 'utf8'), 'data');
      const file = `${volume.target}-file`;
      writeFileSync(file, '');
      await rejects(volume.publish({ target_path: file }), 'ALREADY_EXISTS');
      await volume.unstage();
    });
    test('a symbolic link, as the target or on the way to it, is not followed', async () => {
      const volume = await staged('target-symlink');
      const outside = harness.scratch.join('outside');
      mkdirSync(outside, { recursive: true });
      symlinkSync(outside, join(volume.pod, 'link'));
      await rejects(volume.publish({ target_path: join(volume.pod, 'link') }), 'INVALID_ARGUMENT');
      await rejects(volume.publish({ target_path: join(volume.pod, 'link', 'mount') }), 'INVALID_ARGUMENT');
      await rejects(volume.publish({ staging_target_path: join(volume.pod, 'link', 'x') }), 'INVALID_ARGUMENT');
      assert.deepEqual(harness.mountsAt(outside), []);
      assert.ok(!existsSync(join(outside, 'mount')));
      await volume.unstage();
    });
    test('a link inside of the allowed directories neither', async () => {
      const volume = await staged('target-symlink-inside');
      const inside = join(volume.pod, 'inside');
      mkdirSync(inside);
      symlinkSync(inside, join(volume.pod, 'link'));
      await rejects(volume.publish({ target_path: join(volume.pod, 'link', 'mount') }), 'INVALID_ARGUMENT');
      await volume.unstage();
    });
  });

  describe('PB20, L06: paths of every kind, seen through the escapes of the mount table', () => {
    const names = {
      spaces: 'with two  spaces',
      backslash: 'back\\slash \\040 \\x',
      emoji: 'Größe 🙂 日本',
      newline: 'new\nline\ttab',
      hash: '#comment "quoted" \'single\' $HOME `id` *',
      long: `${'l'.repeat(200)}/${'m'.repeat(200)}/${'ö'.repeat(100)}`,
    };
    for (const [what, name] of Object.entries(names)) {
      test(what, async () => {
        const volume = await harness.volume(`path-${what}`, ext4);
        const staging_target_path = join(volume.staging, name);
        const target_path = join(volume.pod, name, 'mount');
        mkdirSync(staging_target_path, { recursive: true });
        mkdirSync(join(volume.pod, name), { recursive: true });
        const volume_capability = mountCapability('SINGLE_NODE_SINGLE_WRITER', ['noatime', 'nosuid']);
        await volume.stage({ staging_target_path, volume_capability });
        for (let i = 0; i < 2; i++) await volume.publish({ staging_target_path, target_path, volume_capability });
        const [mount] = harness.mountsAt(target_path);
        assert.deepEqual(mount?.options, ['rw', 'nosuid', 'noatime']);
        const second = { staging_target_path, target_path: `${target_path}2`, volume_capability };
        await rejects(volume.publish(second), 'FAILED_PRECONDITION');
        await volume.stats(target_path);
        await rejects(volume.unstage(staging_target_path), 'FAILED_PRECONDITION');
        await volume.unpublish(target_path);
        await volume.unstage(staging_target_path);
        assert.deepEqual(harness.mounts(), []);
      });
    }
  });

  test('PB17: a publish that fails leaves neither a mount nor a target; unpublish is fine then', async () => {
    const volume = await staged('fails');
    // Nothing can be mounted on what is to be made in here: mkdir itself is refused.
    run('chattr', '+i', volume.pod);
    try {
      await rejects(volume.publish(), 'INTERNAL');
    } finally {
      run('chattr', '-i', volume.pod);
    }
    assert.ok(!existsSync(volume.target));
    await volume.unpublish();
    await volume.publish();
    await volume.down();
  });

  test('PB17: a publish that fails at its last step takes away the target that it made', async () => {
    const volume = await staged('fails-late');
    {
      // Somebody else unmounts what was staged.
      using unmounting = new BeforeStep('publish/mount', () => void run('umount', '--lazy', volume.staging));
      await rejects(volume.publish(), 'INTERNAL');
      assert.ok(unmounting.hasHappened);
    }
    assert.ok(!existsSync(volume.target));
    await volume.stage();
    await volume.publish();
    await volume.down();
  });

  test('PB18: another volume, or a foreign mount, at the target: refused, never stacked', async () => {
    const [a, b] = [await staged('pb18-a'), await staged('pb18-b')];
    await a.publish();
    await rejects(b.publish({ target_path: a.target }), 'ALREADY_EXISTS');
    assert.equal(harness.mountsAt(a.target).length, 1);
    mkdirSync(b.target);
    run('mount', '-t', 'tmpfs', 'none', b.target);
    await rejects(b.publish(), 'ALREADY_EXISTS');
    assert.equal(harness.mountsAt(b.target).length, 1);
    run('umount', b.target);
    await Promise.all([a.down(), b.down()]);
  });

  test('PB18: two volumes at one target at once: one of them', async () => {
    const volumes = await Promise.all(['a', 'b', 'c', 'd'].map((name) => staged(`pb18-race-${name}`)));
    const target_path = join(harness.kubelet, 'pods', 'shared');
    // There already: who makes it first does not decide.
    mkdirSync(target_path);
    const answers = await Promise.allSettled(volumes.map((volume) => volume.publish({ target_path })));
    assert.equal(answers.filter(({ status }) => status === 'fulfilled').length, 1);
    assert.equal(harness.mountsAt(target_path).length, 1);
    for (const volume of volumes) await volume.unpublish(target_path);
    assert.ok(!existsSync(target_path));
    for (const volume of volumes) await volume.unstage();
  });
});
