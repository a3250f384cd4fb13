import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { describe, test } from 'node:test';
import { format } from '../../src/command/mkfs.ts';
import { sparseFile } from '../support/disk.ts';
import { Scratch } from '../support/scratch.ts';

describe('mkfs', () => {
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
