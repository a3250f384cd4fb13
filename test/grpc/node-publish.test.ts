import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { blockCapability, filesystems, mountCapability, NodeHarness, rejects, run } from '../support/node-harness.ts';

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-publish');
});
after(() => harness[Symbol.asyncDispose]());

const ext4 = { type: 'mount', fsType: 'ext4' } as const;
const singleWriter = mountCapability('SINGLE_NODE_SINGLE_WRITER');
const multiWriter = mountCapability('SINGLE_NODE_MULTI_WRITER');
const readerOnly = mountCapability('SINGLE_NODE_READER_ONLY');

async function staged(name: string, volume_capability = mountCapability()) {
  const volume = await harness.volume(name, ext4);
  await volume.stage({ volume_capability });
  return volume;
}

describe('NodePublishVolume', () => {
  for (const { fsType, sizeBytes } of filesystems) {
    test(`${fsType}: data is written, unmounted, and there when it is mounted again (PB15)`, async () => {
      const volume = await harness.volume(`data-${fsType}`, { type: 'mount', fsType }, { sizeBytes });
      await volume.stage();
      await volume.publish();
      assert.ok(statSync(volume.target).isDirectory());
      writeFileSync(join(volume.target, 'file'), 'kept');
      await volume.down();
      assert.ok(!existsSync(volume.target));
      await volume.stage();
      await volume.publish();
      assert.equal(readFileSync(join(volume.target, 'file'), 'utf8'), 'kept');
      await volume.down();
    });
  }

  test('PB05: ten times the same is once; at once, too', async () => {
    const volume = await staged('replayed');
    for (let i = 0; i < 10; i++) await volume.publish();
    await Promise.all(Array.from({ length: 20 }, () => volume.publish()));
    assert.equal(harness.mountsAt(volume.target).length, 1);
    await volume.down();
  });

  test('PB05: the same after a restart, with and without our notes', async () => {
    const volume = await staged('restarted', multiWriter);
    await volume.publish({ volume_capability: multiWriter });
    await harness.restart();
    await volume.publish({ volume_capability: multiWriter });
    await rejects(volume.publish({ volume_capability: multiWriter, readonly: true }), 'ALREADY_EXISTS');
    await harness.restart({ forgetNotes: true });
    await volume.publish({ volume_capability: multiWriter });
    await rejects(volume.publish({ volume_capability: multiWriter, readonly: true }), 'ALREADY_EXISTS');
    await volume.down();
  });

  describe('PB07: the same target with other arguments', () => {
    const changes = {
      readonly: { readonly: true },
      'other flags': { volume_capability: mountCapability('SINGLE_NODE_WRITER', ['noatime']) },
      'another mode': { volume_capability: singleWriter },
    };
    for (const [what, change] of Object.entries(changes)) {
      test(what, async () => {
        const volume = await staged(`other-${what}`);
        await volume.publish();
        const before = harness.mountsAt(volume.target);
        await rejects(volume.publish(change), 'ALREADY_EXISTS');
        assert.deepEqual(harness.mountsAt(volume.target), before);
        await volume.publish();
        await volume.down();
      });
    }
    test('somebody remounted it read-only', async () => {
      const volume = await staged('other-remounted');
      await volume.publish();
      run('mount', '-o', 'remount,bind,ro', volume.target);
      await rejects(volume.publish(), 'ALREADY_EXISTS');
      await volume.down();
    });
  });

  describe('a second target', () => {
    const single = {
      'PB06: SINGLE_NODE_SINGLE_WRITER': singleWriter,
      'PB09: SINGLE_NODE_WRITER': mountCapability('SINGLE_NODE_WRITER'),
      'PB08: SINGLE_NODE_READER_ONLY': readerOnly,
    };
    for (const [what, volume_capability] of Object.entries(single)) {
      test(`${what}: refused, and the target is not made`, async () => {
        const volume = await staged(`second-${what}`, volume_capability);
        await volume.publish({ volume_capability });
        const second = `${volume.target}-second`;
        await rejects(volume.publish({ volume_capability, target_path: second }), 'FAILED_PRECONDITION');
        await rejects(
          volume.publish({ volume_capability, target_path: second, readonly: true }),
          'FAILED_PRECONDITION',
        );
        assert.ok(!existsSync(second));
        await volume.unpublish();
        await volume.publish({ volume_capability, target_path: second });
        await volume.unpublish(second);
        await volume.unstage();
      });
    }
    test('PB06: also if the first was published before a restart, and the notes are lost', async () => {
      const volume = await staged('second-restart', singleWriter);
      await volume.publish({ volume_capability: singleWriter });
      await harness.restart({ forgetNotes: true });
      const second = { volume_capability: singleWriter, target_path: `${volume.target}-second` };
      await rejects(volume.publish(second), 'FAILED_PRECONDITION');
      await volume.down();
    });
    test('PB06: of two at once one is published', async () => {
      const volume = await staged('second-race', singleWriter);
      const targets = ['a', 'b', 'c', 'd'].map((name) => join(volume.pod, name));
      const answers = await Promise.allSettled(
        targets.map((target_path) => volume.publish({ volume_capability: singleWriter, target_path })),
      );
      assert.equal(answers.filter(({ status }) => status === 'fulfilled').length, 1);
      assert.equal(targets.filter((target) => harness.mountsAt(target).length === 1).length, 1);
      assert.equal(targets.filter((target) => existsSync(target)).length, 1);
      for (const target of targets) await volume.unpublish(target);
      await volume.unstage();
    });
    test('PB08, PB14: SINGLE_NODE_MULTI_WRITER takes many, read-only or not', async () => {
      const volume = await staged('many', multiWriter);
      const targets = Array.from({ length: 6 }, (_, i) => join(volume.pod, `${i}`));
      await Promise.all(
        targets.map((target_path, i) =>
          volume.publish({ volume_capability: multiWriter, target_path, readonly: i % 2 === 1 }),
        ),
      );
      for (const [i, target] of targets.entries()) {
        assert.equal(harness.mountsAt(target)[0]?.options.includes('ro'), i % 2 === 1);
        if (i % 2 === 0) writeFileSync(join(target, `${i}`), 'x');
        else assert.throws(() => writeFileSync(join(target, `${i}`), 'x'), { code: 'EROFS' });
      }
      assert.ok(existsSync(join(targets[1] ?? '', '4')));
      await volume.unpublish(targets[0]);
      assert.equal(harness.mounts().filter(({ target }) => targets.includes(target)).length, 5);
      for (const target of targets) await volume.unpublish(target);
      await volume.unstage();
    });
  });

  test('PB10: another capability than the staged one is refused, whatever the target', async () => {
    const volume = await staged('pb10', multiWriter);
    const others = [
      singleWriter,
      mountCapability('SINGLE_NODE_MULTI_WRITER', ['noatime']),
      mountCapability('SINGLE_NODE_MULTI_WRITER', ['commit=20']),
    ];
    for (const volume_capability of others) {
      await rejects(volume.publish({ volume_capability }), 'FAILED_PRECONDITION');
      assert.ok(!existsSync(volume.target));
    }
    await volume.publish({ volume_capability: multiWriter });
    await rejects(volume.publish({ volume_capability: singleWriter }), 'ALREADY_EXISTS');
    await volume.down();
  });

  test('PB11: an unknown volume, and an id that is none', async () => {
    const volume = await harness.volume('unknown', ext4);
    await harness.pool.remove(volume.id);
    for (const volume_id of [volume.id, 'x', '../../etc', `${volume.id}/..`]) {
      await rejects(volume.publish({ volume_id }), 'NOT_FOUND');
    }
    assert.ok(!existsSync(volume.target));
  });

  test('PB12, A04: a capability that exceeds the volume', async () => {
    const volume = await staged('exceeds');
    for (const volume_capability of [
      blockCapability(),
      mountCapability('SINGLE_NODE_WRITER', [], 'xfs'),
      mountCapability('MULTI_NODE_READER_ONLY'),
    ]) {
      await rejects(volume.publish({ volume_capability }), 'FAILED_PRECONDITION');
    }
    assert.ok(!existsSync(volume.target));
    await volume.unstage();
  });

  describe('PB13: not staged', () => {
    test('no staging path, another directory, none at all', async () => {
      const volume = await staged('unstaged');
      const empty = `${volume.staging}-empty`;
      mkdirSync(empty);
      for (const staging_target_path of ['', empty, `${volume.staging}-missing`]) {
        await rejects(volume.publish({ staging_target_path }), 'FAILED_PRECONDITION');
      }
      await rejects(volume.publish({ staging_target_path: 'relative' }), 'INVALID_ARGUMENT');
      assert.ok(!existsSync(volume.target));
      await volume.unstage();
      await rejects(volume.publish(), 'FAILED_PRECONDITION');
    });
    test('the staging path of another volume', async () => {
      const [a, b] = [await staged('unstaged-a'), await staged('unstaged-b')];
      await rejects(a.publish({ staging_target_path: b.staging }), 'FAILED_PRECONDITION');
      assert.ok(!existsSync(a.target));
      await Promise.all([a.unstage(), b.unstage()]);
    });
    test('the staging path as the target', async () => {
      const volume = await staged('staging-as-target');
      await rejects(volume.publish({ target_path: volume.staging }), 'INVALID_ARGUMENT');
      assert.equal(harness.mountsAt(volume.staging).length, 1);
      await volume.unstage();
    });
  });

  describe('PB14: read-only', () => {
    test('readonly: writes fail here and work elsewhere', async () => {
      const volume = await staged('readonly');
      await volume.publish({ readonly: true });
      assert.ok(harness.mountsAt(volume.target)[0]?.options.includes('ro'));
      assert.throws(() => writeFileSync(join(volume.target, 'x'), ''), { code: 'EROFS' });
      writeFileSync(join(volume.staging, 'x'), '');
      await volume.down();
    });
    test('A02: a reader-only mode, whatever readonly says', async () => {
      const volume = await staged('reader-only', readerOnly);
      await volume.publish({ volume_capability: readerOnly, readonly: false });
      assert.throws(() => writeFileSync(join(volume.target, 'x'), ''), { code: 'EROFS' });
      await volume.publish({ volume_capability: readerOnly, readonly: true });
      await volume.down();
    });
    test('the flag ro', async () => {
      const volume_capability = mountCapability('SINGLE_NODE_WRITER', ['ro']);
      const volume = await staged('ro-flag', volume_capability);
      await volume.publish({ volume_capability });
      assert.throws(() => writeFileSync(join(volume.target, 'x'), ''), { code: 'EROFS' });
      await volume.down();
    });
  });

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
    const answers = await Promise.allSettled(volumes.map((volume) => volume.publish({ target_path })));
    assert.equal(answers.filter(({ status }) => status === 'fulfilled').length, 1);
    assert.equal(harness.mountsAt(target_path).length, 1);
    for (const volume of volumes) await volume.unpublish(target_path);
    assert.ok(!existsSync(target_path));
    for (const volume of volumes) await volume.unstage();
  });

  test('ST11: a foreign volume_context', async () => {
    const volume = await staged('context');
    await rejects(volume.publish({ volume_context: { other: 'x' } }), 'INVALID_ARGUMENT');
    await volume.publish({ volume_context: { 'csi.storage.k8s.io/ephemeral': 'false' } });
    await volume.down();
  });

  test('X03: secrets are taken and kept nowhere', async () => {
    const volume = await staged('secrets');
    await volume.publish({ secrets: { key: 'holdfast-secret' } });
    assert.ok(!readFileSync(harness.noteOf(volume), 'utf8').includes('holdfast-secret'));
    // Other secrets are no other arguments (PB07).
    await volume.publish({ secrets: { key: 'another' } });
    await volume.down();
  });
});

describe('NodeUnpublishVolume', () => {
  test('UP03, UP05: removes the target; again, a missing parent, an unknown volume: fine', async () => {
    const volume = await staged('unpublished');
    await volume.publish();
    await volume.unpublish();
    assert.ok(!existsSync(volume.target));
    await volume.unpublish();
    await volume.unpublish(join(volume.pod, 'never', 'there'));
    for (const volume_id of ['x', '../../etc', volume.id.replace(/.$/, 'z')]) {
      await harness.node.NodeUnpublishVolume({ volume_id, target_path: volume.target });
    }
    await volume.unstage();
  });

  test('UP05: a path that is there but not mounted is removed', async () => {
    const volume = await harness.volume('leftover', ext4);
    mkdirSync(volume.target);
    await volume.unpublish();
    assert.ok(!existsSync(volume.target));
    writeFileSync(volume.target, '');
    await volume.unpublish();
    assert.ok(!existsSync(volume.target));
  });

  test('UP06: data that is not the volume’s is never deleted', async () => {
    const volume = await staged('precious');
    mkdirSync(volume.target);
    writeFileSync(join(volume.target, 'precious'), 'data');
    await rejects(volume.unpublish(), 'FAILED_PRECONDITION');
    assert.equal(readFileSync(join(volume.target, 'precious'), 'utf8'), 'data');
    const file = `${volume.target}-file`;
    writeFileSync(file, 'data');
    await rejects(volume.unpublish(file), 'FAILED_PRECONDITION');
    assert.equal(readFileSync(file, 'utf8'), 'data');
    symlinkSync(volume.target, `${volume.target}-link`);
    await rejects(volume.unpublish(`${volume.target}-link`), 'INVALID_ARGUMENT');
    await rejects(volume.unpublish(`${volume.target}-link/precious`), 'INVALID_ARGUMENT');
    assert.ok(existsSync(`${volume.target}-link`));
    await volume.unstage();
  });

  test('UP06: data of the volume stays when its target goes', async () => {
    const volume = await staged('stays');
    await volume.publish();
    writeFileSync(join(volume.target, 'file'), 'kept');
    await volume.unpublish();
    assert.equal(readFileSync(join(volume.staging, 'file'), 'utf8'), 'kept');
    await volume.unstage();
  });

  test('UP06: busy: nothing is removed', async () => {
    const volume = await staged('busy');
    await volume.publish();
    await using user = await harness.workIn(volume.target);
    await rejects(volume.unpublish(), 'FAILED_PRECONDITION', /in use/);
    assert.equal(harness.mountsAt(volume.target).length, 1);
    await user[Symbol.asyncDispose]();
    await volume.down();
  });

  test('UP06: stacked mounts of the volume are all undone', async () => {
    const volume = await staged('stacked');
    await volume.publish();
    for (let i = 0; i < 5; i++) run('mount', '--bind', volume.staging, volume.target);
    assert.equal(harness.mountsAt(volume.target).length, 6);
    await volume.unpublish();
    assert.ok(!existsSync(volume.target));
    assert.equal(harness.mountsAt(volume.staging).length, 1);
    await volume.unstage();
  });

  test('UP07: other targets and the staging path stay', async () => {
    const volume = await staged('others', multiWriter);
    const second = `${volume.target}-second`;
    await volume.publish({ volume_capability: multiWriter });
    await volume.publish({ volume_capability: multiWriter, target_path: second });
    await volume.unpublish();
    assert.equal(harness.mountsAt(second).length, 1);
    assert.equal(harness.mountsAt(volume.staging).length, 1);
    await rejects(volume.unpublish(volume.staging), 'FAILED_PRECONDITION');
    assert.equal(harness.mountsAt(volume.staging).length, 1);
    await volume.unpublish(second);
    await volume.unstage();
  });

  test('UP07: another volume, and a foreign mount, at the path are left alone', async () => {
    const [a, b] = [await staged('other-a'), await staged('other-b')];
    await a.publish();
    await b.unpublish(a.target);
    await harness.node.NodeUnpublishVolume({ volume_id: '../x', target_path: a.target });
    assert.equal(harness.mountsAt(a.target).length, 1);
    mkdirSync(b.target);
    run('mount', '-t', 'tmpfs', 'none', b.target);
    await b.unpublish();
    assert.equal(harness.mountsAt(b.target).length, 1);
    run('umount', b.target);
    await Promise.all([a.down(), b.down()]);
  });

  test('a foreign mount over ours: says what to do', async () => {
    const volume = await staged('covered');
    await volume.publish();
    run('mount', '-t', 'tmpfs', 'none', volume.target);
    await rejects(volume.unpublish(), 'FAILED_PRECONDITION', /mounted over/);
    run('umount', volume.target);
    await volume.down();
  });

  test('UP08: without the record, without our notes, without the pool', async () => {
    const volume = await staged('lost');
    await volume.publish();
    await harness.stop();
    run('mv', harness.directoryOf(volume), harness.scratch.join('moved-away'));
    await harness.start();
    await volume.down();
    assert.ok(!existsSync(volume.target));
    assert.deepEqual(harness.mountsAt(volume.staging), []);
    run('mv', harness.scratch.join('moved-away'), harness.directoryOf(volume));
    await harness.restart({ forgetNotes: true });

    await volume.stage();
    await volume.publish();
    await harness.restart({ openPool: () => Promise.reject(new Error('this pool is broken')), forgetNotes: true });
    await rejects(volume.publish(), 'UNAVAILABLE');
    await volume.down();
    assert.ok(!existsSync(volume.target));
    assert.deepEqual(harness.mountsAt(volume.staging), []);
    await harness.restart();
  });

  for (const { fsType, sizeBytes } of filesystems) {
    test(`UP08: ${fsType} after it was shut down by errors`, async () => {
      const volume = await harness.volume(`shutdown-${fsType}`, { type: 'mount', fsType }, { sizeBytes });
      await volume.stage();
      await volume.publish();
      harness.shutDown(volume);
      await volume.down();
      assert.ok(!existsSync(volume.target));
      assert.deepEqual(harness.mountsAt(volume.staging), []);
      assert.deepEqual(harness.loopsOf(volume), []);
    });
  }

  test('T05: the opposite calls first, in any order', async () => {
    const volume = await harness.volume('order', ext4);
    await volume.unpublish();
    await volume.unstage();
    await volume.unpublish();
    await rejects(volume.publish(), 'FAILED_PRECONDITION');
    await volume.stage();
    await volume.unpublish();
    await volume.publish();
    await rejects(volume.unstage(), 'FAILED_PRECONDITION');
    await volume.stage();
    await volume.publish();
    await volume.unpublish();
    await volume.unstage();
    await volume.unpublish();
    rmdirSync(volume.staging);
    await volume.unstage();
  });

  test('no mount, device, note or target is left after a hundred rounds', async () => {
    const volume = await harness.volume('rounds', ext4);
    for (let i = 0; i < 100; i++) {
      await volume.stage();
      await volume.publish();
      await volume.down();
    }
    assert.deepEqual(harness.mounts(), []);
    assert.deepEqual(harness.loopsOf(volume), []);
    assert.ok(!existsSync(harness.noteOf(volume)));
  });
});
