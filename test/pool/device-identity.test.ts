import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { truncateSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { withDevice } from '../../src/filesystems/brief-mount.ts';
import { giveNewIdentity } from '../../src/filesystems/identity.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { filesystemTypes } from '../../src/volume/filesystem.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('test', 4);
const blockSizeBytes = 4096;

/** Shows the first copy of the superblock. */
const shownCopy: Readonly<Record<string, readonly string[]>> = {
  ext4: ['dumpe2fs', '-h', '-o', 'superblock=32768', '-o', 'blocksize=4096'],
  xfs: ['xfs_db', '-r', '-c', 'sb 1', '-c', 'print uuid'],
  btrfs: ['btrfs', 'inspect-internal', 'dump-super', '--super', '1'],
};

describe('the UUID of a clone on a device', () => {
  for (const fsType of filesystemTypes) {
    test(`${fsType}: is new, in the copies of the superblock too`, async () => {
      using scratch = new Scratch('identity');
      const image = scratch.join('image');
      writeFileSync(image, '');
      truncateSync(image, 320 << 20);
      const options = fsType === 'ext4' ? ['-b', `${blockSizeBytes}`] : [];
      execFileSync(`mkfs.${fsType}`, ['-q', ...options, image], { stdio: 'pipe' });
      const uuid = () => execFileSync('blkid', ['-p', '-o', 'value', '-s', 'UUID', image], { encoding: 'utf8' }).trim();
      const before = uuid();
      await withDevice(queue, { path: image, blockSizeBytes }, async (path) => {
        await giveNewIdentity(queue, { path, fsType, blockSizeBytes });
        execFileSync('blockdev', ['--flushbufs', path]);
      });
      assert.notEqual(uuid(), before);
      const [program = '', ...args] = shownCopy[fsType] ?? [];
      const copy = execFileSync(program, [...args, image], { encoding: 'utf8', stdio: 'pipe' });
      assert.match(copy, new RegExp(uuid()));
    });
  }
});
