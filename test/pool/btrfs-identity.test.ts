import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, openSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { describe, test } from 'node:test';
import { btrfsRenewal } from '../../src/filesystems/btrfs-identity.ts';
import { renew } from '../../src/filesystems/renewal.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { DataLoss } from '../../src/volume/errors.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('test', 4);

function btrfs(scratch: Scratch, ...options: string[]): string {
  const path = scratch.join('image');
  writeFileSync(path, '');
  truncateSync(path, 320 << 20);
  execFileSync('mkfs.btrfs', ['-q', '-K', ...options, path], { stdio: 'pipe' });
  return path;
}

/** The fields of all superblocks, by name. */
function superblocks(path: string): (name: string) => string[] {
  const text = execFileSync('btrfs', ['inspect-internal', 'dump-super', '-a', path], { encoding: 'utf8' });
  return (name) => Array.from(text.matchAll(new RegExp(`^${name}\\t+(.*)$`, 'gm')), (match) => match[1] ?? '');
}

describe('the UUID of a cloned btrfs', () => {
  for (const checksum of ['crc32c', 'xxhash', 'sha256', 'blake2']) {
    test(`with ${checksum}: another one each time, in all superblocks, which stay sound`, async () => {
      using scratch = new Scratch('btrfs');
      const path = btrfs(scratch, '--csum', checksum);
      const before = superblocks(path);
      for (let time = 0; time < 2; time++) {
        const [previous] = superblocks(path)('fsid');
        assert.equal(await renew(queue, path, randomBytes(16), btrfsRenewal), 'done');
        const after = superblocks(path);
        const [uuid] = after('fsid');
        assert.notEqual(uuid, previous);
        assert.deepEqual(after('fsid'), [uuid, uuid]);
        // What the tree blocks have, and when they were written.
        assert.deepEqual(after('metadata_uuid'), before('fsid'));
        assert.deepEqual(after('generation'), before('generation'));
        for (const sum of after('csum')) assert.match(sum, /\[match\]$/);
        execFileSync('btrfs', ['check', '--readonly', path], { stdio: 'pipe' });
      }
    });
  }

  test('a superblock that is damaged is left alone', async () => {
    using scratch = new Scratch('btrfs');
    const path = btrfs(scratch);
    const file = openSync(path, 'r+');
    writeSync(file, 'damage', (64 << 10) + 300);
    closeSync(file);
    await assert.rejects(renew(queue, path, randomBytes(16), btrfsRenewal), DataLoss);
    for (const sum of superblocks(path)('csum')) assert.match(sum, /DON'T MATCH|\[match\]/);
  });
});
