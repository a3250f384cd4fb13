import '../support/without-sys-resource.ts';
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parseMkfsOptions } from '../../src/command/mkfs-options.ts';
import { InvalidArgument } from '../../src/volume/errors.ts';
import type { FilesystemType } from '../../src/volume/filesystem.ts';
import { NodeHarness, rejects, run, sizeKiB } from '../support/node-harness.ts';

let harness: NodeHarness;
before(async () => {
  harness = await NodeHarness.open('mkfs-options');
});
after(() => harness[Symbol.asyncDispose]());

const gibibyte = 1n << 30n;

const options: Readonly<Record<FilesystemType, readonly string[]>> = {
  ext4: [
    ...['-b 1024', '-G 2', '-g 8192', '-I 128', '-i 65536', '-N 1000', '-m 5', '-J size=8', '-e continue'],
    ...['stride=4,stripe_width=16', 'num_backup_sb=0', 'packed_meta_blocks=1', 'orphan_file_size=131072'].map(
      asExtended,
    ),
    ...['^resize_inode', 'sparse_super2', 'meta_bg,^resize_inode', '^64bit', '^has_journal', 'inline_data'].map(
      asFeature,
    ),
    ...['uninit_bg', '^metadata_csum', 'metadata_csum_seed', 'mmp', '^flex_bg', 'ea_inode'].map(asFeature),
    ...['^extent', '^extent,^64bit', '^sparse_super', 'quota', 'casefold', 'none'].map(asFeature),
  ],
  xfs: [
    ...[
      '-b size=1024',
      '-d agcount=2',
      '-d noalign',
      '-d extszinherit=16',
      '-i size=2048',
      '-i sparse=0',
      '-l size=64m',
    ],
    ...['-m crc=0', '-m reflink=0', '-m rmapbt=1', '-m bigtime=0,inobtcount=0', '-n size=8192', '-s size=512', '-K'],
  ],
  btrfs: [
    ...['-O extref', '-O raid56', '-O zoned', '-O block-group-tree', '-O raid-stripe-tree', '-n 65536', '-s 8192'],
    ...['-m single', '-m dup', '-d single', '--csum sha256', '--csum blake2', '-M', '--nodiscard'],
  ],
};

function asExtended(option: string): string {
  return `-E ${option}`;
}

function asFeature(option: string): string {
  return `-O ${option}`;
}

const sizes: Readonly<Record<FilesystemType, bigint>> = { ext4: 64n << 20n, xfs: 400n << 20n, btrfs: 300n << 20n };

describe('CV10 PB19: what mkfsOptions allow is refused at once, or makes a filesystem that grows', () => {
  for (const fsType of ['ext4', 'xfs', 'btrfs'] as const) {
    for (const text of options[fsType]) {
      test(`${fsType} ${text}`, async () => {
        const mkfsArguments = parseMkfsOptions(fsType, text);
        const spec = { sizeBytes: sizes[fsType], mkfsArguments };
        const volume = await harness.volume(text, { type: 'mount', fsType }, spec).catch(nothingIfRefused);
        if (volume === undefined) return;
        await volume.stage();
        writeFileSync(join(volume.staging, 'file'), 'kept');
        await volume.unstage();
        await harness.pool.grow(volume.id, gibibyte);
        await volume.stage();
        assert.equal(readFileSync(join(volume.staging, 'file'), 'utf8'), 'kept');
        assert.ok(sizeKiB(volume.staging) > 800 * 1024, `${sizeKiB(volume.staging)} KiB`);
        await volume.unstage();
        await harness.pool.remove(volume.id);
      });
    }
  }
});

describe('an ext4 with bigalloc, which earlier versions made', () => {
  test('PB19 NE08: is staged as large as it is, and says why it does not grow', async () => {
    const content = { type: 'mount', fsType: 'ext4' } as const;
    const volume = await harness.volume('bigalloc', content, { mkfsArguments: ['-O', 'bigalloc', '-C', '65536'] });
    await volume.stage();
    writeFileSync(join(volume.staging, 'file'), 'kept');
    await rejects(volume.expand(gibibyte, volume.staging), 'FAILED_PRECONDITION', /bigalloc cannot grow/);
    assert.equal((await harness.pool.find(volume.id))?.sizeBytes, 64n << 20n);
    await volume.unstage();
    await assert.rejects(harness.pool.grow(volume.id, gibibyte), /bigalloc cannot grow/);
    // The state that an earlier version has left: the device has grown, and the filesystem not.
    run('truncate', '--size=1G', harness.imageOf(volume));
    for (let i = 0; i < 2; i++) {
      await volume.stage();
      assert.equal(readFileSync(join(volume.staging, 'file'), 'utf8'), 'kept');
      assert.ok(sizeKiB(volume.staging) <= 64 * 1024);
      await rejects(volume.expand(gibibyte, volume.staging), 'FAILED_PRECONDITION', /bigalloc cannot grow/);
      await volume.unstage();
    }
  });
});

/** This node's mkfs does not know the option, or its kernel does not mount what that makes: said at once. */
function nothingIfRefused(error: unknown): undefined {
  if (!(error instanceof InvalidArgument)) throw error;
}
