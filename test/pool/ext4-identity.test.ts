import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  closeSync,
  copyFileSync,
  openSync,
  readFileSync,
  readSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { describe, test } from 'node:test';
import { ext4Renewal } from '../../src/filesystems/ext4-identity.ts';
import { giveNewIdentity } from '../../src/filesystems/identity.ts';
import { renew } from '../../src/filesystems/renewal.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { DataLoss } from '../../src/volume/errors.ts';
import { uuidOf } from '../support/disk.ts';
import { Scratch } from '../support/scratch.ts';
import { whileMounted } from '../support/while-mounted.ts';

const queue = new DiskQueue('test', 4);

function ext4(scratch: Scratch, options: readonly string[] = [], mebibytes = 320): string {
  const path = scratch.join('image');
  writeFileSync(path, '');
  truncateSync(path, mebibytes * 1024 * 1024);
  execFileSync('mkfs.ext4', ['-q', '-F', ...options, path], { stdio: 'pipe' });
  return path;
}

function bytesOf(uuid: string): Buffer {
  return Buffer.from(uuid.replaceAll('-', ''), 'hex');
}

/** e2fsck(8) ends with 0 only if there is nothing to be said. */
function check(path: string): void {
  execFileSync('e2fsck', ['-fn', path], { stdio: 'pipe' });
}

/** What e2fsck(8) has to say when it begins from a copy of the superblock: what is free it counts anew, in any case. */
function repairedFromCopy(scratch: Scratch, path: string): string {
  const clone = scratch.join('clone');
  copyFileSync(path, clone);
  const place = ['-b', `${backups(path)[0]}`, '-B', `${blockSizeOf(path)}`];
  const { status, stdout } = spawnSync('e2fsck', ['-fy', ...place, clone], { encoding: 'utf8' });
  assert.ok(status === 0 || status === 1, stdout);
  assert.equal(uuidOf(clone), uuidOf(path));
  check(clone);
  return stdout;
}

function dump(path: string): string {
  return execFileSync('dumpe2fs', [path], { encoding: 'utf8', stdio: 'pipe' });
}

/** The blocks with copies of the superblock, as e2fsprogs finds them. */
function backups(path: string): number[] {
  return Array.from(dump(path).matchAll(/Backup superblock at (\d+)/g), (match) => Number(match[1]));
}

function blockSizeOf(path: string): number {
  return Number(/^Block size:\s+(\d+)$/m.exec(dump(path))?.[1]);
}

function read(path: string, offset: number, length: number): Buffer {
  const file = openSync(path, 'r');
  const bytes = Buffer.alloc(length);
  readSync(file, bytes, 0, length, offset);
  closeSync(file);
  return bytes;
}

/** Mounts it, changes something, and unmounts it. */
function use(scratch: Scratch, path: string): void {
  const directory = scratch.join('mounted');
  whileMounted(path, directory, () => writeFileSync(`${directory}/${randomUUID()}`, Buffer.alloc(1 << 20, 'x')));
}

/** What lies in an image while it is mounted, as a crash of its node would leave it. */
function crashed(scratch: Scratch, path: string): string {
  const copy = scratch.join('crashed');
  const open: number[] = [];
  const directory = scratch.join('mounted');
  whileMounted(path, directory, () => {
    try {
      // Several transactions; the first one changes the superblock, too, where it makes a large file or deletes an open one.
      for (let index = 0; index < 20; index++) {
        const file = openSync(`${directory}/file ${index}`, 'w');
        open.push(file);
        execFileSync('rm', [`${directory}/file ${index}`]);
        writeSync(file, Buffer.alloc(4096, 'y'));
        writeFileSync(`${directory}/kept ${index}`, `${index}`);
        execFileSync('sync', [`${directory}/kept ${index}`]);
      }
      copyFileSync(path, copy);
    } finally {
      for (const file of open) closeSync(file);
    }
  });
  return copy;
}

const optionSets: Record<string, readonly string[]> = {
  'as the driver makes it': [
    '-e',
    'remount-ro',
    '-m',
    '0',
    '-E',
    'lazy_itable_init=1,lazy_journal_init=1,nodiscard,assume_storage_prezeroed=1',
  ],
  'blocks of 1 KiB': ['-b', '1024'],
  'blocks of 2 KiB': ['-b', '2048'],
  'no checksums': ['-O', '^metadata_csum'],
  'no checksums and groups of the old kind': ['-O', '^metadata_csum,uninit_bg'],
  'groups of the old kind, in meta groups': ['-O', '^metadata_csum,uninit_bg,meta_bg,^resize_inode'],
  'a checksum seed already': ['-O', 'metadata_csum_seed'],
  '32-bit': ['-O', '^64bit'],
  'copies in two groups': ['-O', 'sparse_super2'],
  'copies in all groups': ['-O', '^sparse_super,^resize_inode', '-b', '1024'],
  'meta groups': ['-O', 'meta_bg,^resize_inode', '-b', '1024'],
  'no journal': ['-O', '^has_journal'],
  'quota and project': ['-O', 'quota,project'],
  'encrypt and casefold': ['-O', 'encrypt,casefold'],
  verity: ['-O', 'verity'],
  'inline data': ['-O', 'inline_data', '-I', '256'],
  'multi-mount protection': ['-O', 'mmp'],
  'no flexible groups': ['-O', '^flex_bg'],
  'small inodes': ['-I', '128'],
  'fast commits': ['-O', 'fast_commit'],
};

/** The one waits for many seconds, the others are not in every kernel. */
const notMounted = ['multi-mount protection', 'quota and project', 'encrypt and casefold', 'verity'];

describe('the UUID of a cloned ext4', () => {
  for (const [what, options] of Object.entries(optionSets)) {
    test(`${what}: another one each time, in all superblocks; it stays sound, also in use`, async () => {
      using scratch = new Scratch('ext4');
      const path = ext4(scratch, options);
      const hashSeed = /Directory Hash Seed:.*/.exec(dump(path))?.[0];
      for (let time = 0; time < 2; time++) {
        const previous = uuidOf(path);
        const repaired = repairedFromCopy(scratch, path);
        await giveNewIdentity(queue, { path, fsType: 'ext4', blockSizeBytes: 512 });
        const uuid = uuidOf(path);
        assert.notEqual(uuid, previous);
        check(path);
        const copies = backups(path);
        assert.ok(copies.length > 0);
        for (const block of copies) {
          const at = block * blockSizeOf(path);
          assert.deepEqual(read(path, at + 104, 16), bytesOf(uuid), `the copy in block ${block}`);
        }
        const repairedNow = repairedFromCopy(scratch, path);
        // tune2fs(8) brings the copies of the descriptors up to date as well.
        if (!options.some((option) => option.includes('uninit_bg'))) assert.equal(repairedNow, repaired);
        assert.equal(/Directory Hash Seed:.*/.exec(dump(path))?.[0], hashSeed);
        if (!notMounted.includes(what)) use(scratch, path);
        check(path);
        assert.equal(uuidOf(path), uuid);
      }
    });
  }

  test('nothing is written but superblocks', async () => {
    using scratch = new Scratch('ext4');
    const path = ext4(scratch, ['-b', '4096']);
    const before = readFileSync(path);
    assert.equal(await renew(queue, path, bytesOf(randomUUID()), ext4Renewal), 'done');
    const after = readFileSync(path);
    const places = [1024, ...backups(path).map((block) => block * 4096)];
    for (const place of places) {
      assert.notDeepEqual(after.subarray(place, place + 1024), before.subarray(place, place + 1024));
      before.copy(after, place, place, place + 1024);
    }
    assert.ok(after.equals(before));
  });

  test('it can be grown and used under the new one', async () => {
    using scratch = new Scratch('ext4');
    const path = ext4(scratch);
    await giveNewIdentity(queue, { path, fsType: 'ext4', blockSizeBytes: 512 });
    const uuid = uuidOf(path);
    truncateSync(path, 2048 * 1024 * 1024);
    execFileSync('resize2fs', [path], { stdio: 'pipe' });
    use(scratch, path);
    check(path);
    assert.equal(uuidOf(path), uuid);
  });

  for (const options of [[], ['-O', '^metadata_csum,uninit_bg'], ['-b', '1024']]) {
    test(`after a crash its journal is replayed first (mkfs.ext4 ${options.join(' ')})`, async () => {
      using scratch = new Scratch('ext4');
      const path = crashed(scratch, ext4(scratch, options));
      const before = uuidOf(path);
      assert.equal(await renew(queue, path, bytesOf(randomUUID()), ext4Renewal), 'journal');
      assert.equal(uuidOf(path), before);
      await giveNewIdentity(queue, { path, fsType: 'ext4', blockSizeBytes: 512 });
      const uuid = uuidOf(path);
      assert.notEqual(uuid, before);
      check(path);
      use(scratch, path);
      check(path);
      assert.equal(uuidOf(path), uuid);
      assert.match(dump(path), /^Filesystem state:\s+clean$/m);
    });
  }

  test('what is encrypted by its UUID keeps it', async () => {
    using scratch = new Scratch('ext4');
    const path = ext4(scratch, ['-O', 'encrypt,stable_inodes']);
    const before = readFileSync(path);
    assert.equal(await renew(queue, path, bytesOf(randomUUID()), ext4Renewal), 'kept');
    await giveNewIdentity(queue, { path, fsType: 'ext4', blockSizeBytes: 512 });
    assert.ok(readFileSync(path).equals(before));
  });

  test('a superblock that is damaged is left alone; so is a damaged copy', async () => {
    using scratch = new Scratch('ext4');
    const path = ext4(scratch, ['-b', '4096']);
    const damage = (offset: number) => {
      const file = openSync(path, 'r+');
      writeSync(file, 'damage', offset);
      closeSync(file);
    };
    const [copy = 0] = backups(path);
    damage(copy * 4096 + 500);
    const damaged = read(path, copy * 4096, 1024);
    await giveNewIdentity(queue, { path, fsType: 'ext4', blockSizeBytes: 512 });
    assert.deepEqual(read(path, copy * 4096, 1024), damaged);
    damage(1024 + 500);
    const before = readFileSync(path);
    await assert.rejects(giveNewIdentity(queue, { path, fsType: 'ext4', blockSizeBytes: 512 }), DataLoss);
    assert.ok(readFileSync(path).equals(before));
  });
});
