import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { blockCapability, filesystems, mountCapability, NodeHarness, rejects, run } from '../support/node-harness.ts';

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
    assert.deepEqual(harness.loopsOf(volume), []);
  });

  test('ST05: an unknown volume, and an id that is none', async () => {
    const volume = await harness.volume('unknown', ext4);
    await harness.pool.remove(volume.id);
    await rejects(volume.stage(), 'NOT_FOUND');
    for (const volume_id of ['x', '../../etc', `${volume.id}/../x`, `${volume.id}\n`, '/dev/loop0']) {
      await rejects(volume.stage({ volume_id }), 'NOT_FOUND');
    }
  });

  describe('ST06: staged with another capability', () => {
    const staged = mountCapability('SINGLE_NODE_WRITER', ['noatime'], 'ext4');
    const others = {
      'other flags': mountCapability('SINGLE_NODE_WRITER', ['nodiratime'], 'ext4'),
      'no flags': mountCapability('SINGLE_NODE_WRITER', [], 'ext4'),
      'another mode': mountCapability('SINGLE_NODE_READER_ONLY', ['noatime'], 'ext4'),
      'a mode that looks alike': mountCapability('SINGLE_NODE_MULTI_WRITER', ['noatime'], 'ext4'),
      'a parameter that nobody sees in the mount table': mountCapability(
        'SINGLE_NODE_WRITER',
        ['noatime', 'async'],
        'ext4',
      ),
    };
    for (const [what, volume_capability] of Object.entries(others)) {
      test(what, async () => {
        const volume = await harness.volume(`capability-${what}`, ext4);
        await volume.stage({ volume_capability: staged });
        const before = harness.mountsAt(volume.staging);
        await rejects(volume.stage({ volume_capability }), 'ALREADY_EXISTS');
        assert.deepEqual(harness.mountsAt(volume.staging), before);
        await volume.stage({ volume_capability: staged });
        await volume.unstage();
      });
    }

    test('also after a restart, and what was staged is still the same', async () => {
      const volume = await harness.volume('capability-restart', ext4);
      await volume.stage({ volume_capability: staged });
      await harness.restart();
      await rejects(volume.stage({ volume_capability: others['a mode that looks alike'] }), 'ALREADY_EXISTS');
      await volume.stage({ volume_capability: staged });
      await volume.unstage();
    });

    test('without our notes, by what the kernel shows', async () => {
      const volume = await harness.volume('capability-no-note', ext4);
      await volume.stage({ volume_capability: staged });
      await harness.restart({ forgetNotes: true });
      await rejects(volume.stage({ volume_capability: others['no flags'] }), 'ALREADY_EXISTS');
      await volume.stage({ volume_capability: staged });
      await volume.unstage();
    });

    test('a filesystem named or left to us is the same (A06)', async () => {
      const volume = await harness.volume('capability-default', ext4);
      await volume.stage({ volume_capability: mountCapability() });
      await volume.stage({ volume_capability: mountCapability('SINGLE_NODE_WRITER', [], 'ext4') });
      await volume.unstage();
    });

    test('somebody remounted it with other flags', async () => {
      const volume = await harness.volume('remounted', ext4);
      await volume.stage();
      run('mount', '-o', 'remount,bind,nosuid', volume.staging);
      await rejects(volume.stage(), 'ALREADY_EXISTS');
      await volume.unstage();
    });
  });

  describe('ST07, A04: a capability that exceeds the volume', () => {
    const refused = {
      'another filesystem': mountCapability('SINGLE_NODE_WRITER', [], 'xfs'),
      'a filesystem nobody offers': mountCapability('SINGLE_NODE_WRITER', [], 'zfs'),
      block: blockCapability(),
      'many nodes (A05)': mountCapability('MULTI_NODE_MULTI_WRITER'),
      'a mount group (G10)': {
        access_mode: { mode: 'SINGLE_NODE_WRITER' as const },
        mount: { fs_type: '', mount_flags: [], volume_mount_group: '100' },
      },
    };
    for (const [what, volume_capability] of Object.entries(refused)) {
      test(what, async () => {
        const volume = await harness.volume(`exceeds-${what}`, ext4);
        await rejects(volume.stage({ volume_capability }), 'FAILED_PRECONDITION');
        assert.deepEqual(harness.mountsAt(volume.staging), []);
      });
    }
  });

  describe('ST08: the staging path', () => {
    test('a missing directory is not made for the caller', async () => {
      const volume = await harness.volume('path-missing', ext4);
      rmdirSync(volume.staging);
      await rejects(volume.stage(), 'FAILED_PRECONDITION');
      assert.throws(() => readdirSync(volume.staging), { code: 'ENOENT' });
    });
    test('a file', async () => {
      const volume = await harness.volume('path-file', ext4);
      rmdirSync(volume.staging);
      writeFileSync(volume.staging, '');
      await rejects(volume.stage(), 'INVALID_ARGUMENT');
    });
    test('a file, for a block volume', async () => {
      const volume = await harness.volume('path-file-block', { type: 'block' });
      rmdirSync(volume.staging);
      writeFileSync(volume.staging, '');
      await rejects(volume.stage(), 'INVALID_ARGUMENT');
    });
    test('a relative path, one with .., one outside of the allowed directories', async () => {
      const volume = await harness.volume('path-wrong', ext4);
      for (const staging_target_path of ['staging', `${volume.staging}/../x`, '/etc', harness.kubelet]) {
        await rejects(volume.stage({ staging_target_path }), 'INVALID_ARGUMENT');
      }
    });
    test('a directory with data, which the mount would hide', async () => {
      const volume = await harness.volume('path-data', ext4);
      writeFileSync(join(volume.staging, 'precious'), 'data');
      await rejects(volume.stage(), 'ALREADY_EXISTS');
      assert.equal(readFileSync(join(volume.staging, 'precious'), 'utf8'), 'data');
    });
    test('PB18: another volume, or a foreign mount, is there', async () => {
      const [a, b] = [await harness.volume('path-a', ext4), await harness.volume('path-b', ext4)];
      await a.stage();
      await rejects(b.stage({ staging_target_path: a.staging }), 'ALREADY_EXISTS');
      run('mount', '-t', 'tmpfs', 'none', b.staging);
      await rejects(b.stage(), 'ALREADY_EXISTS');
      assert.equal(harness.mountsAt(a.staging).length, 1);
      assert.equal(harness.mountsAt(b.staging).length, 1);
      run('umount', b.staging);
      await a.unstage();
      assert.deepEqual(harness.loopsOf(b), []);
    });
    test('one staging path for a volume', async () => {
      const volume = await harness.volume('path-second', ext4);
      await volume.stage();
      const second = `${volume.staging}-second`;
      mkdirSync(second);
      await rejects(volume.stage({ staging_target_path: second }), 'FAILED_PRECONDITION');
      await volume.unstage(second); // Not staged there: fine (US04).
      assert.equal(harness.mountsAt(volume.staging).length, 1);
      await volume.unstage();
      await volume.stage({ staging_target_path: second });
      await volume.unstage(second);
    });
  });

  describe('ST09: never formats', () => {
    test('a foreign filesystem stays as it is', async () => {
      const volume = await harness.volume('foreign', ext4, { sizeBytes: 320n << 20n });
      const image = harness.imageOf(volume);
      run('mkfs.xfs', '-qf', '-L', 'theirs', image);
      await rejects(volume.stage(), 'DATA_LOSS', /xfs/);
      assert.match(run('blkid', '-p', image), /LABEL="theirs"/);
      assert.deepEqual(harness.loopsOf(volume), []);
    });
    test('a blank image is damage, not a reason to format', async () => {
      const volume = await harness.volume('blank', ext4);
      run('dd', 'if=/dev/zero', `of=${harness.imageOf(volume)}`, 'bs=1M', 'count=64', 'conv=notrunc');
      await rejects(volume.stage(), 'DATA_LOSS', /blank/);
      assert.throws(() => run('blkid', '-p', harness.imageOf(volume)));
    });
    test('a damaged superblock', async () => {
      const volume = await harness.volume('damaged', ext4);
      // s_inode_size and what follows; the magic number stays.
      run('bash', '-c', `printf '\\xff\\xff\\xff\\xff' | dd of=${harness.imageOf(volume)} bs=1 seek=1112 conv=notrunc`);
      await rejects(volume.stage(), 'DATA_LOSS');
      assert.deepEqual(harness.mountsAt(volume.staging), []);
      assert.deepEqual(harness.loopsOf(volume), []);
    });
    test('a missing image', async () => {
      const volume = await harness.volume('missing', ext4);
      run('rm', harness.imageOf(volume));
      await rejects(volume.stage(), 'DATA_LOSS', /missing/);
    });
  });

  test('ST10: after somebody unmounted it, the same stage mounts it again', async () => {
    const volume = await harness.volume('unmounted', ext4);
    await volume.stage();
    await volume.publish();
    run('umount', volume.staging);
    await volume.stage();
    assert.equal(harness.mountsAt(volume.staging).length, 1);
    assert.equal(harness.loopsOf(volume).length, 1);
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
      const flags = ['noatime,nosuid', 'nodev', 'noexec', 'commit=17', 'defaults'];
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
        assert.deepEqual(harness.loopsOf(volume), []);
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
      const sizeKiB = Number(run('df', '--output=size', '-k', volume.staging).split('\n')[1]);
      assert.ok(sizeKiB > 900 * 1024, `${fsType} has ${sizeKiB} KiB`);
      assert.equal(readFileSync(join(volume.staging, 'file'), 'utf8'), 'kept');
      await volume.unstage();
    }
  });
});

describe('NodeUnstageVolume', () => {
  test('US03, US04: never staged, unknown, no such directory: fine', async () => {
    const volume = await harness.volume('never-staged', ext4);
    await volume.unstage();
    await volume.unstage(join(harness.kubelet, 'staging', 'nothing'));
    await volume.unstage(join(harness.kubelet, 'no', 'such', 'place'));
    const file = `${volume.staging}-file`;
    writeFileSync(file, 'data');
    await volume.unstage(file);
    assert.equal(readFileSync(file, 'utf8'), 'data');
    for (const volume_id of ['x', '../..', volume.id.replace(/.$/, 'z')]) {
      await harness.node.NodeUnstageVolume({ volume_id, staging_target_path: volume.staging });
    }
  });

  test('US05: leaves the directory, no loop device, and can be repeated', async () => {
    const volume = await harness.volume('cycles', ext4);
    for (let i = 0; i < 20; i++) {
      await volume.stage();
      await volume.unstage();
      await volume.unstage();
    }
    assert.deepEqual(readdirSync(volume.staging), []);
    assert.deepEqual(harness.loopsOf(volume), []);
    await harness.pool.remove(volume.id);
  });

  test('US06: refuses while published, and nothing is torn down', async () => {
    const volume = await harness.volume('published', ext4);
    await volume.stage();
    await volume.publish();
    writeFileSync(join(volume.target, 'file'), 'x');
    const before = harness.mounts();
    await rejects(volume.unstage(), 'FAILED_PRECONDITION', new RegExp(volume.target));
    assert.deepEqual(harness.mounts(), before);
    await volume.down();
  });

  test('US06: also if somebody has unmounted the staging path', async () => {
    const volume = await harness.volume('published-unmounted', ext4);
    await volume.stage();
    await volume.publish();
    run('umount', volume.staging);
    await rejects(volume.unstage(), 'FAILED_PRECONDITION');
    await volume.down();
  });

  test('US06: a bind of a directory in the volume counts too', async () => {
    const volume = await harness.volume('sub-path', ext4);
    await volume.stage();
    mkdirSync(join(volume.staging, 'sub'));
    const subPath = harness.scratch.join('sub-path');
    mkdirSync(subPath);
    run('mount', '--bind', join(volume.staging, 'sub'), subPath);
    await rejects(volume.unstage(), 'FAILED_PRECONDITION');
    run('umount', subPath);
    await volume.unstage();
  });

  test('busy: says so, and works once it is not', async () => {
    const volume = await harness.volume('busy', ext4);
    await volume.stage();
    await using _user = await harness.workIn(volume.staging);
    await rejects(volume.unstage(), 'FAILED_PRECONDITION', /in use/);
    assert.equal(harness.mountsAt(volume.staging).length, 1);
    await _user[Symbol.asyncDispose]();
    await volume.unstage();
  });

  test('another volume, or a foreign mount, at the path is left alone', async () => {
    const [a, b] = [await harness.volume('leave-a', ext4), await harness.volume('leave-b', ext4)];
    await a.stage();
    await b.unstage(a.staging);
    assert.equal(harness.mountsAt(a.staging).length, 1);
    run('mount', '-t', 'tmpfs', 'none', b.staging);
    await b.unstage();
    assert.equal(harness.mountsAt(b.staging).length, 1);
    run('umount', b.staging);
    await a.unstage();
  });

  test('a foreign mount over ours: says what to do, undoes neither', async () => {
    const volume = await harness.volume('covered', ext4);
    await volume.stage();
    run('mount', '-t', 'tmpfs', 'none', volume.staging);
    await rejects(volume.unstage(), 'FAILED_PRECONDITION', /mounted over/);
    assert.equal(harness.mountsAt(volume.staging).length, 2);
    run('umount', volume.staging);
    await volume.unstage();
  });

  test('mounts stacked by somebody are all undone', async () => {
    const volume = await harness.volume('stacked', ext4);
    await volume.stage();
    run('mount', '--bind', volume.staging, volume.staging);
    run('mount', '--bind', volume.staging, volume.staging);
    assert.equal(harness.mountsAt(volume.staging).length, 3);
    await volume.unstage();
    assert.deepEqual(harness.mountsAt(volume.staging), []);
  });

  test('UP08: works without the record, without notes, and without the pool', async () => {
    const volume = await harness.volume('lost', ext4);
    await volume.stage();
    await harness.stop();
    run('mv', harness.directoryOf(volume), harness.scratch.join('moved-away'));
    await harness.start();
    await volume.unstage();
    assert.deepEqual(harness.mountsAt(volume.staging), []);
    run('mv', harness.scratch.join('moved-away'), harness.directoryOf(volume));
    await harness.restart({ forgetNotes: true });

    await volume.stage();
    await harness.restart({ openPool: () => Promise.reject(new Error('this pool is broken')) });
    await rejects(volume.stage(), 'UNAVAILABLE');
    await volume.unstage();
    assert.deepEqual(harness.mountsAt(volume.staging), []);
    await harness.restart();
  });
});
