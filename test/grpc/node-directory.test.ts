import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmdirSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { adminService } from '../../src/admin/service.ts';
import type { Pool, QuotaUsage } from '../../src/pool/pool.ts';
import { Pools } from '../../src/pool/pools.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { shortPath } from '../../src/volume/short-path.ts';
import { Child } from '../support/child.ts';
import { eventually } from '../support/eventually.ts';
import { openDirectoryPool, openMountablePool } from '../support/files-pool.ts';
import { NodeHarness, rejects, run } from '../support/node-harness.ts';
import { blockCapability, mountCapability, type TestVolume } from '../support/node-volume.ts';

const directory = { type: 'directory' } as const;
const severalPods = 'SINGLE_NODE_MULTI_WRITER';

interface Files {
  /** Where the pool's files are; undefined: in no filesystem of a disk. */
  readonly path: string | undefined;
  readonly openPool: () => Promise<Pool>;
}

/** A harness whose pool yields directories of a filesystem, or filesystems without a device. */
async function openHarness(
  on: 'ext4' | 'xfs' | 'btrfs' | 'tmpfs' | 'mountable',
  more: { flags?: string; quota?: QuotaUsage } = {},
) {
  const harness = await NodeHarness.open(`directory-${on}`);
  const { path, openPool } = filesOf(harness, on, more);
  await harness.restart({ openPool });
  return { harness, files: path, openPool, [Symbol.asyncDispose]: () => harness[Symbol.asyncDispose]() };
}

function filesOf(
  { scratch }: NodeHarness,
  on: 'ext4' | 'xfs' | 'btrfs' | 'tmpfs' | 'mountable',
  { flags = 'defaults', quota }: { flags?: string; quota?: QuotaUsage },
): Files {
  if (on === 'mountable')
    return { path: undefined, openPool: () => openMountablePool(scratch, ['size=1m', 'mode=755']) };
  const path = scratch.join('files');
  mkdirSync(path);
  if (on === 'tmpfs') run('mount', '-t', 'tmpfs', '-o', flags, 'tmpfs', path);
  else {
    run('truncate', '--size=512M', `${path}.img`);
    run(`mkfs.${on}`, '-q', `${path}.img`);
    run('mount', '-o', `loop,${flags}`, `${path}.img`, path);
  }
  const quotaUsage = quota === undefined ? {} : { quotaUsage: async () => quota };
  return { path, openPool: () => openDirectoryPool(scratch, path, quotaUsage) };
}

function dataOf(files: string, { id }: TestVolume): string {
  return join(files, 'volumes', id, 'data');
}

async function stagedAndPublished(harness: NodeHarness, name: string): Promise<TestVolume> {
  const volume = await harness.volume(name, directory);
  await volume.stage();
  await volume.publish();
  return volume;
}

for (const on of ['ext4', 'xfs', 'btrfs', 'tmpfs', 'mountable'] as const) {
  describe(`a volume of files on ${on}`, () => {
    test('ST04 PB05 UP05 US04: is staged, published and back, each time as often as asked', async () => {
      await using opened = await openHarness(on);
      const { harness } = opened;
      const volume = await harness.volume('life', directory);
      for (let i = 0; i < 2; i++) await volume.stage();
      for (let i = 0; i < 2; i++) await volume.publish();
      assert.equal(harness.mountsAt(volume.staging).length, 1);
      assert.equal(harness.mountsAt(volume.target).length, 1);
      writeFileSync(join(volume.target, 'file'), 'kept');
      assert.equal(readFileSync(join(volume.staging, 'file'), 'utf8'), 'kept');
      await rejects(volume.unstage(), 'FAILED_PRECONDITION', /still published at/);
      for (let i = 0; i < 2; i++) await volume.unpublish();
      assert.deepEqual(readdirSync(volume.pod), []);
      assert.equal(readFileSync(join(volume.staging, 'file'), 'utf8'), 'kept');
      for (let i = 0; i < 2; i++) await volume.unstage();
      assert.deepEqual(readdirSync(volume.staging), []);
      if (opened.files !== undefined) assert.deepEqual(readdirSync(dataOf(opened.files, volume)), ['file']);
      assert.deepEqual(
        harness.mounts().filter(({ target }) => target.startsWith(harness.kubelet)),
        [],
      );
    });

    test('PB08 PB09 PB10 PB14: several pods, read-only or not; a pod alone is alone', async () => {
      await using opened = await openHarness(on);
      const { harness } = opened;
      const volume = await harness.volume('pods', directory);
      const volume_capability = mountCapability(severalPods);
      await volume.stage({ volume_capability });
      const [writer, reader] = [join(volume.pod, 'writer'), join(volume.pod, 'reader')];
      await volume.publish({ volume_capability, target_path: writer });
      await volume.publish({ volume_capability, target_path: reader, readonly: true });
      writeFileSync(join(writer, 'file'), 'shared');
      assert.equal(readFileSync(join(reader, 'file'), 'utf8'), 'shared');
      assert.throws(() => writeFileSync(join(reader, 'file'), ''), { code: 'EROFS' });
      await rejects(volume.publish({ volume_capability, target_path: reader }), 'ALREADY_EXISTS');
      await volume.unpublish(writer);
      assert.equal(readFileSync(join(reader, 'file'), 'utf8'), 'shared');
      await volume.unpublish(reader);
      await volume.unstage();

      const alone = await stagedAndPublished(harness, 'alone');
      const second = join(alone.pod, 'second');
      await rejects(alone.publish({ target_path: second }), 'FAILED_PRECONDITION', /allows one pod at a time/);
      await alone.down();
    });

    test('T04: a driver that starts anew goes on, with its notes and without', async () => {
      await using opened = await openHarness(on);
      const { harness, openPool } = opened;
      const volume = await stagedAndPublished(harness, 'restart');
      for (const forgetNotes of [false, true]) {
        await harness.restart({ openPool, forgetNotes });
        await volume.stage();
        await volume.publish();
        await rejects(volume.publish({ readonly: true }), 'ALREADY_EXISTS');
        assert.equal(harness.mountsAt(volume.target).length, 1);
        const { volume_condition } = await volume.stats();
        assert.equal(volume_condition?.abnormal, false);
      }
      await harness.restart({ openPool });
      await volume.down();
    });

    test('ST07 PB12: is neither a block volume nor of a filesystem type', async () => {
      await using opened = await openHarness(on);
      const { harness } = opened;
      const volume = await harness.volume('as', directory);
      await rejects(volume.stage({ volume_capability: blockCapability() }), 'FAILED_PRECONDITION', /is a directory/);
      const typed = mountCapability('SINGLE_NODE_WRITER', [], 'ext4');
      await rejects(volume.stage({ volume_capability: typed }), 'FAILED_PRECONDITION', /leave fsType \(ext4\) out/);
      assert.deepEqual(harness.mountsAt(volume.staging), []);
    });

    test('UP07 US06: what is busy is said, by whom, and nothing else is taken for it', async () => {
      await using opened = await openHarness(on);
      const { harness } = opened;
      const volume = await stagedAndPublished(harness, 'busy');
      const other = await stagedAndPublished(harness, 'other');
      await using _other = await harness.workIn(other.target);
      writeFileSync(join(volume.target, 'file'), 'x');
      await using user = await Child.start(['tail', '--follow', join(volume.target, 'file')], { tells: true });
      const who = `in use by process ${user.pid} (tail) at ${shortPath(join(volume.target, 'file'))}`;
      // On a busy machine the time for the search may be over before it is found.
      await eventually(async () => {
        const message = await rejects(volume.unpublish(), 'FAILED_PRECONDITION');
        assert.equal(
          message,
          `volume ${volume.id} cannot be unmounted: it is ${who}; end that first (see holdfast who).`,
        );
      });
      await user[Symbol.asyncDispose]();
      await volume.down();
      await _other[Symbol.asyncDispose]();
      await other.down();
    });
  });
}

describe('a directory volume', () => {
  test('X02: takes the flags of a bind mount, and refuses others without a word of them', async () => {
    await using opened = await openHarness('ext4');
    const { harness } = opened;
    const volume = await harness.volume('flags', directory);
    const refused = mountCapability('SINGLE_NODE_WRITER', ['ro', 'data=s3cret']);
    const message = await rejects(volume.stage({ volume_capability: refused }), 'INVALID_ARGUMENT', /bind mount/);
    assert.doesNotMatch(message, /s3cret|data=/);
    assert.ok(message.length <= 200, message);
    const volume_capability = mountCapability('SINGLE_NODE_WRITER', ['nosuid', 'nodev,noexec', 'noatime']);
    await volume.stage({ volume_capability });
    await volume.publish({ volume_capability });
    for (const path of [volume.staging, volume.target]) {
      const options = harness.mountsAt(path)[0]?.options ?? [];
      assert.deepEqual(options, ['rw', 'nosuid', 'nodev', 'noexec', 'noatime']);
    }
    await volume.down();
    const reader = mountCapability('SINGLE_NODE_READER_ONLY');
    await volume.stage({ volume_capability: reader });
    await volume.publish({ volume_capability: reader });
    assert.throws(() => mkdirSync(join(volume.target, 'directory')), { code: 'EROFS' });
    await volume.down();
  });

  test('keeps what the operator has forbidden on its filesystem, unless it is asked for otherwise', async () => {
    await using opened = await openHarness('ext4', { flags: 'nosuid,noexec,noatime' });
    const { harness } = opened;
    const volume = await stagedAndPublished(harness, 'inherits');
    assert.deepEqual(harness.mountsAt(volume.target)[0]?.options, ['rw', 'nosuid', 'noexec', 'noatime']);
    await volume.stage();
    await volume.publish();
    await volume.down();
    const volume_capability = mountCapability('SINGLE_NODE_WRITER', ['exec', 'relatime']);
    await volume.stage({ volume_capability });
    await volume.publish({ volume_capability });
    assert.deepEqual(harness.mountsAt(volume.target)[0]?.options, ['rw', 'nosuid', 'relatime']);
    await volume.down();
  });

  test('PB18: foreign mounts, and those of other volumes and of a directory in it, are not taken for it', async () => {
    await using opened = await openHarness('ext4');
    const { files = '', harness } = opened;
    const volume = await stagedAndPublished(harness, 'own');
    const other = await harness.volume('foreign', directory);
    mkdirSync(join(volume.target, 'sub'));
    for (const from of [files, join(files, 'volumes'), volume.target, join(volume.target, 'sub')]) {
      run('mount', '--bind', from, other.staging);
      await rejects(other.stage(), 'ALREADY_EXISTS', /unmount that first/);
      await other.unstage();
      assert.equal(harness.mountsAt(other.staging).length, 1);
      run('umount', other.staging);
    }
    // A part of the volume at a target is the volume's to unmount, but no publish of it (subPath of a pod, say).
    const part = join(volume.pod, 'part');
    mkdirSync(part);
    run('mount', '--bind', join(volume.target, 'sub'), part);
    await volume.unpublish();
    await rejects(volume.unstage(), 'FAILED_PRECONDITION', /still published at .*part/);
    await rejects(volume.publish({ target_path: part }), 'ALREADY_EXISTS');
    await volume.unpublish(part);
    await volume.unstage();
  });

  test('UP06: nothing in it is removed, whatever is wrong with its target', async () => {
    await using opened = await openHarness('ext4');
    const { files = '', harness } = opened;
    const volume = await stagedAndPublished(harness, 'kept');
    writeFileSync(join(volume.target, 'file'), 'kept');
    const beside = join(volume.pod, 'beside');
    mkdirSync(beside);
    writeFileSync(join(beside, 'data'), 'foreign');
    await rejects(volume.unpublish(beside), 'FAILED_PRECONDITION', /data that is not the volume's/);
    run('umount', volume.target);
    await volume.unpublish();
    run('umount', volume.staging);
    await volume.unstage();
    assert.deepEqual(readdirSync(dataOf(files, volume)), ['file']);
  });

  test('a mount that a pod makes in it appears neither in its pool nor the other way round', async () => {
    await using opened = await openHarness('ext4');
    const { files = '', harness } = opened;
    run('mount', '--make-rshared', files);
    const volume = await stagedAndPublished(harness, 'apart');
    mkdirSync(join(volume.target, 'upon'));
    run('mount', '-t', 'tmpfs', 'tmpfs', join(volume.target, 'upon'));
    assert.deepEqual(
      harness.mounts().filter(({ target }) => target.startsWith(dataOf(files, volume))),
      [],
    );
    run('umount', join(volume.target, 'upon'));
    run('mount', '-t', 'tmpfs', 'tmpfs', join(dataOf(files, volume), 'upon'));
    assert.deepEqual(harness.mountsAt(join(volume.target, 'upon')), []);
    run('umount', join(dataOf(files, volume), 'upon'));
    await volume.down();
  });

  test('VS06: tells the figures of its quota, or those of its filesystem', async () => {
    const quota = {
      bytes: { total: 100n, used: 30n, available: 70n },
      inodes: { total: 10n, used: 3n, available: 7n },
    };
    {
      await using opened = await openHarness('ext4', { quota });
      const volume = await stagedAndPublished(opened.harness, 'quota');
      for (const path of [volume.target, volume.staging]) {
        const { usage } = await volume.stats(path);
        const figures = usage.map(({ available, total, unit, used }) => ({ unit, total, used, available }));
        assert.deepEqual(figures, [
          { unit: 'BYTES', ...quota.bytes },
          { unit: 'INODES', ...quota.inodes },
        ]);
      }
      await volume.down();
    }
    await using opened = await openHarness('ext4');
    const volume = await stagedAndPublished(opened.harness, 'none');
    const { blocks, bsize } = statfsSync(volume.target, { bigint: true });
    assert.equal((await volume.stats()).usage[0]?.total, blocks * bsize);
    await volume.down();
    await rejects(volume.stats(), 'NOT_FOUND');
  });

  test('VS08: tells that the filesystem it lies on has shut down', async () => {
    await using opened = await openHarness('ext4');
    const { harness } = opened;
    const volume = await stagedAndPublished(harness, 'dead');
    harness.shutDown(volume);
    const { volume_condition } = await volume.stats();
    assert.equal(volume_condition?.abnormal, true);
    await volume.down();
  });

  test('NE04: grows where it is, and its filesystem is left alone', async () => {
    await using opened = await openHarness('xfs');
    const { harness } = opened;
    const volume = await stagedAndPublished(harness, 'grows');
    const before = statfsSync(volume.target).blocks;
    const { capacity_bytes } = await volume.expand(128n << 20n);
    assert.equal(capacity_bytes, 128n << 20n);
    assert.equal(statfsSync(volume.target).blocks, before);
    await volume.down();
  });

  test('who has it is found: mounts, and processes in it by whichever mount', async () => {
    await using opened = await openHarness('ext4');
    const { files = '', harness } = opened;
    const volume = await stagedAndPublished(harness, 'who');
    const other = await stagedAndPublished(harness, 'bystander');
    for (const { target } of [volume, other]) writeFileSync(join(target, 'file'), 'x');
    const pools = new Pools(new Map([['test', async () => harness.pool]]), 'test');
    await pools.open();
    const { holders } = adminService({ nodeId: 'node', pools, objects: new ObjectQueue() });
    const who = () => holders({ id: volume.id }, { note: () => undefined });
    await using _bystander = await Child.start(['tail', '--follow', join(other.target, 'file')], { tells: true });
    await using byPool = await Child.start(['tail', '--follow', join(dataOf(files, volume), 'file')], { tells: true });
    await using byTarget = await harness.workIn(volume.target);
    assert.ok(byTarget);
    const found = await who();
    assert.deepEqual(found.devices, []);
    assert.deepEqual(found.mountedFrom, [dataOf(files, volume)]);
    const mounts = found.holders.filter(({ kind }) => kind === 'mount').map(({ path }) => path);
    assert.deepEqual(new Set(mounts), new Set([volume.staging, volume.target]));
    const processes = found.holders.filter((holder) => holder.kind === 'process');
    assert.deepEqual(new Set(processes.map(({ command }) => command)), new Set(['tail', 'sleep']));
    assert.ok(processes.some(({ path, pid }) => pid === byPool.pid && path === join(dataOf(files, volume), 'file')));
    assert.equal(processes.length, 2);
    await byTarget[Symbol.asyncDispose]();
    await volume.down();
    assert.deepEqual((await who()).mountedFrom, []);
    await other.unpublish().catch(() => undefined);
  });

  test('ST08: its staging directory is the caller’s, and stays', async () => {
    await using opened = await openHarness('ext4');
    const volume = await opened.harness.volume('place', directory);
    rmdirSync(volume.staging);
    await rejects(volume.stage(), 'FAILED_PRECONDITION', /does not exist/);
    mkdirSync(volume.staging);
    writeFileSync(join(volume.staging, 'foreign'), 'x');
    await rejects(volume.stage(), 'ALREADY_EXISTS', /would hide data/);
  });
});

describe('a volume that is mounted as it is', () => {
  test('X02: has its own options, and those of the caller; a wrong one is not repeated', async () => {
    await using opened = await openHarness('mountable');
    const { harness } = opened;
    const volume = await harness.volume('options', directory);
    const wrong = mountCapability('SINGLE_NODE_WRITER', ['s3cret=s3cret']);
    const message = await rejects(
      volume.stage({ volume_capability: wrong }),
      'INVALID_ARGUMENT',
      /tmpfs does not take/,
    );
    assert.doesNotMatch(message, /s3cret/);
    assert.deepEqual(harness.mountsAt(volume.staging), []);
    const volume_capability = mountCapability('SINGLE_NODE_WRITER', ['nr_inodes=100', 'nodev']);
    await volume.stage({ volume_capability });
    await volume.publish({ volume_capability });
    const [mount] = harness.mountsAt(volume.target);
    assert.ok(mount?.superOptions.includes('size=1024k'));
    assert.ok(mount?.superOptions.includes('nr_inodes=100'));
    assert.deepEqual(mount?.options, ['rw', 'nodev', 'relatime']);
    await volume.down();
  });
});
