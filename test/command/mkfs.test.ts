import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { describe, test } from 'node:test';
import { format } from '../../src/command/mkfs.ts';
import { replaceProgram, sparseFile } from '../support/disk.ts';
import { Scratch } from '../support/scratch.ts';

/** The groups of an ext4, and those whose table of inodes needs no more zeros. */
function groupsOf(path: string): { readonly all: number; readonly zeroed: number } {
  const text = execFileSync('dumpe2fs', [path], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  return { all: text.match(/^Group \d+:/gm)?.length ?? 0, zeroed: text.match(/ITABLE_ZEROED/g)?.length ?? 0 };
}

describe('mkfs', () => {
  test('ext4: where all is zeros, the kernel has no table of inodes to write after the first mount', async () => {
    using scratch = new Scratch('mkfs');
    const request = { fsType: 'ext4', sizeBytes: 1n << 30n, blockSizeBytes: 4096, extraArguments: [] } as const;
    const [zeroed, other, old] = ['zeroed', 'other', 'old'].map((name) => sparseFile(scratch.join(name), 1024));
    await format({ ...request, path: zeroed ?? '', isZeroed: true });
    assert.deepEqual(groupsOf(zeroed ?? ''), { all: 8, zeroed: 8 });
    await format({ ...request, path: other ?? '' });
    assert.deepEqual(groupsOf(other ?? ''), { all: 8, zeroed: 0 });
    // The words of mke2fs 1.46.
    const script =
      'case "$*" in *prezeroed*) echo "Bad option(s) specified: assume_storage_prezeroed" >&2; exit 1 ;; esac';
    using _old = replaceProgram(scratch, 'mkfs.ext4', `${script}\nexec $real "$@"`);
    await format({ ...request, path: old ?? '', isZeroed: true });
    assert.deepEqual(groupsOf(old ?? ''), { all: 8, zeroed: 0 });
  });

  for (const fsType of ['ext4', 'xfs', 'btrfs'] as const) {
    test(`${fsType}: the disk below somebody else's mounted image has failed`, async () => {
      using scratch = new Scratch('mkfs');
      const [sick, image] = [scratch.join('sick'), scratch.join('sick/image')];
      const neighbour = scratch.join('neighbour');
      for (const directory of [sick, neighbour]) mkdirSync(directory);
      const disk = sparseFile(scratch.join('disk'), 400);
      execFileSync('mkfs.xfs', ['-q', disk]);
      execFileSync('mount', ['-o', 'loop', disk, sick]);
      sparseFile(image, 32);
      execFileSync('mkfs.ext4', ['-q', image]);
      execFileSync('mount', ['-o', 'loop', image, neighbour]);
      execFileSync('xfs_io', ['-x', '-c', 'shutdown', sick]);
      const path = sparseFile(scratch.join('ours'), 400);
      await format({ path, fsType, sizeBytes: 400n << 20n, blockSizeBytes: 4096, extraArguments: [] });
      assert.equal(
        execFileSync('blkid', ['-p', '-s', 'TYPE', '-o', 'value', path], { encoding: 'utf8' }).trim(),
        fsType,
      );
    });
  }
});
