import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { NodeHarness, rejects, run } from '../support/node-harness.ts';
import { blockCapability, mountCapability } from '../support/node-volume.ts';

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('node-stage-refused');
});
after(() => harness[Symbol.asyncDispose]());

const ext4 = { type: 'mount', fsType: 'ext4' } as const;

describe('NodeStageVolume refuses', () => {
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

  test('ST07 PB12 NE07: an access mode that allows more than the volume was made for', async () => {
    const alone = { volume_capability: mountCapability('SINGLE_NODE_SINGLE_WRITER') };
    const reader = { volume_capability: mountCapability('SINGLE_NODE_READER_ONLY') };
    const many = { volume_capability: mountCapability('SINGLE_NODE_MULTI_WRITER') };
    for (const { made, less, more } of [
      { made: 'SINGLE_NODE_SINGLE_WRITER', less: reader, more: many },
      { made: 'SINGLE_NODE_READER_ONLY', less: reader, more: alone },
    ] as const) {
      const volume = await harness.volume(`mode-${made}`, ext4, { accessModes: [made] });
      await rejects(volume.stage(more), 'FAILED_PRECONDITION', new RegExp(`made for ${made}`));
      assert.deepEqual(harness.mountsAt(volume.staging), []);
      await volume.stage(less);
      await harness.restart({ forgetNotes: true });
      await rejects(volume.publish(more), 'FAILED_PRECONDITION', new RegExp(`made for ${made}`));
      const { volume_capability } = more;
      const expand = { volume_id: volume.id, volume_path: volume.staging, volume_capability };
      await rejects(harness.node.NodeExpandVolume(expand), 'INVALID_ARGUMENT');
      await volume.publish(less);
      await volume.down();
    }
  });

  test('X02: an option that the filesystem does not take is named by its place, not by its words', async () => {
    const volume = await harness.volume('option', ext4);
    const flags = ['noatime, auto', 'data=ordered', 's3cret=s3cret', 'nodelalloc'];
    const volume_capability = mountCapability('SINGLE_NODE_WRITER', flags, 'ext4');
    const message = await rejects(
      volume.stage({ volume_capability }),
      'INVALID_ARGUMENT',
      /ext4 does not take \(EINVAL, number 2 of the 3 that are for the filesystem\)/,
    );
    assert.doesNotMatch(message, /s3cret/);
    assert.deepEqual(harness.mountsAt(volume.staging), []);
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
      await harness.hasLoops(b, 0);
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

  test('what cannot be staged leaves nothing for an unstage that may never come', async () => {
    const volume = await harness.volume('refused', ext4);
    const volume_capability = mountCapability('SINGLE_NODE_WRITER', ['nonsense'], 'ext4');
    await rejects(volume.stage({ volume_capability }), 'INVALID_ARGUMENT', /mountOptions/);
    assert.equal(existsSync(harness.noteOf(volume)), false);
    await harness.hasLoops(volume, 0);
    await volume.stage();
    assert.equal(existsSync(harness.noteOf(volume)), true);
    await volume.unstage();
  });

  describe('ST09: never formats', () => {
    test('a foreign filesystem stays as it is', async () => {
      const volume = await harness.volume('foreign', ext4, { sizeBytes: 320n << 20n });
      const image = harness.imageOf(volume);
      run('mkfs.xfs', '-qf', '-L', 'theirs', image);
      await rejects(volume.stage(), 'DATA_LOSS', /xfs/);
      assert.match(run('blkid', '-p', image), /LABEL="theirs"/);
      await harness.hasLoops(volume, 0);
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
      await harness.hasLoops(volume, 0);
    });
    test('a missing image', async () => {
      const volume = await harness.volume('missing', ext4);
      run('rm', harness.imageOf(volume));
      await rejects(volume.stage(), 'DATA_LOSS', /missing/);
    });
  });
});
