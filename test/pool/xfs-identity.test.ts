import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import {
  closeSync,
  copyFileSync,
  fsyncSync,
  openSync,
  readFileSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { describe, test } from 'node:test';
import { giveNewIdentity } from '../../src/filesystems/identity.ts';
import { renew } from '../../src/filesystems/renewal.ts';
import { xfsRenewal } from '../../src/filesystems/xfs-identity.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { DataLoss } from '../../src/volume/errors.ts';
import { uuidOf } from '../support/disk.ts';
import { Scratch } from '../support/scratch.ts';
import { whileMounted } from '../support/while-mounted.ts';

const queue = new DiskQueue('test', 4);

function xfs(scratch: Scratch, options: readonly string[] = [], mebibytes = 320): string {
  const path = scratch.join('image');
  writeFileSync(path, '');
  truncateSync(path, mebibytes * 1024 * 1024);
  execFileSync('mkfs.xfs', ['-q', '-f', '-K', ...options, path], { stdio: 'pipe' });
  return path;
}

function database(path: string, ...commands: string[]): string {
  return execFileSync('xfs_db', ['-r', ...commands.flatMap((command) => ['-c', command]), path], {
    encoding: 'utf8',
    stdio: 'pipe',
  });
}

/** Where the log begins and ends. */
function logOf(path: string): string {
  return execFileSync('xfs_logprint', ['-t', '-n', path], { encoding: 'utf8', stdio: 'pipe' });
}

/** xfs_repair(8) ends with 0 only if there is nothing to be repaired; its log must be empty, and of this filesystem. */
function check(path: string): void {
  const { status, stderr, stdout } = spawnSync('xfs_repair', ['-n', '-f', path], { encoding: 'utf8' });
  assert.equal(status, 0, `${stdout}\n${stderr}`);
  assert.doesNotMatch(`${stdout}${stderr}`, /uuid|ALERT|would/i);
  assert.match(logOf(path), /state: <CLEAN>/);
}

/** Mounts it as nothing else of its UUID is mounted, and unmounts it. */
function use(scratch: Scratch, path: string, work: (directory: string) => void, options: readonly string[] = []): void {
  const directory = scratch.join('mounted');
  whileMounted(path, directory, () => work(directory), options);
}

function write(directory: string): void {
  writeFileSync(`${directory}/${randomUUID()}`, randomBytes(1 << 20));
}

/** Each sync writes a record to the log, as long as its stripe unit at least. */
function turnLog(directory: string, records: number): void {
  for (let index = 0; index < records; index++) {
    const file = openSync(`${directory}/${index}`, 'w');
    fsyncSync(file);
    closeSync(file);
  }
}

async function identify(path: string): Promise<string> {
  const before = uuidOf(path);
  await giveNewIdentity(queue, { path, fsType: 'xfs', blockSizeBytes: 512 });
  const uuid = uuidOf(path);
  assert.notEqual(uuid, before);
  return uuid;
}

const optionSets: Record<string, readonly string[]> = {
  'as the driver makes it': ['-s', 'size=512'],
  'sectors of 4 KiB': ['-s', 'size=4096'],
  'blocks of 1 KiB': ['-b', 'size=1024'],
  'a log in stripes': ['-l', 'su=256k,size=64m'],
  'a log of the first version': ['-l', 'version=1', '-m', 'crc=0'],
  stripes: ['-d', 'su=64k,sw=4'],
  'many groups': ['-d', 'agcount=12'],
  'no reflink, no rmap, no inode btree': ['-m', 'reflink=0,rmapbt=0,finobt=0'],
  'reverse mappings': ['-m', 'rmapbt=1'],
  'big timestamps and inode counts': ['-m', 'bigtime=1,inobtcount=1'],
  'case-insensitive': ['-n', 'version=ci'],
  'without checksums': ['-m', 'crc=0'],
};

describe('the UUID of a cloned XFS', () => {
  for (const [what, options] of Object.entries(optionSets)) {
    test(`${what}: another one each time, in all superblocks; it stays sound, also in use`, async () => {
      using scratch = new Scratch('xfs');
      const path = xfs(scratch, options, 1024);
      const isOld = options.includes('crc=0');
      const original = uuidOf(path);
      for (let time = 0; time < 3; time++) {
        const uuid = await identify(path);
        check(path);
        const groups = Number(/agcount = (\d+)/.exec(database(path, 'sb 0', 'print agcount'))?.[1]);
        for (let group = 0; group < groups; group++) {
          const printed = database(
            path,
            `sb ${group}`,
            'print uuid',
            ...(isOld ? [] : ['print meta_uuid', 'print crc']),
          );
          assert.match(printed, new RegExp(`^uuid = ${uuid}$`, 'm'));
          if (!isOld) assert.match(printed, new RegExp(`^meta_uuid = ${original}$`, 'm'));
          if (!isOld) assert.match(printed, /^crc = 0x[0-9a-f]+ \(correct\)$/m);
        }
        // Linux can be built without either.
        if (!isOld && what !== 'case-insensitive') use(scratch, path, write);
        check(path);
        assert.equal(uuidOf(path), uuid);
      }
    });
  }

  test('a fresh one needs no mount: nothing is written but superblocks and one block of the log', async () => {
    using scratch = new Scratch('xfs');
    const path = xfs(scratch);
    const before = readFileSync(path);
    assert.equal(await renew(queue, path, randomBytes(16), xfsRenewal), 'done');
    const after = readFileSync(path);
    let changed = 0;
    for (let at = 0; at < after.length; at += 512)
      if (!after.subarray(at, at + 512).equals(before.subarray(at, at + 512))) changed++;
    assert.equal(changed, 5);
    check(path);
  });

  test('both are mounted side by side; it can be grown', async () => {
    using scratch = new Scratch('xfs');
    const path = xfs(scratch);
    const clone = scratch.join('clone');
    copyFileSync(path, clone);
    const uuid = await identify(clone);
    truncateSync(clone, 1 << 30);
    const other = scratch.join('other');
    use(scratch, path, () => {
      whileMounted(clone, other, () => {
        execFileSync('xfs_growfs', [other], { stdio: 'pipe' });
        write(other);
      });
    });
    check(clone);
    assert.equal(uuidOf(clone), uuid);
    await identify(clone);
    check(clone);
  });

  for (const options of [[], ['-l', 'su=256k'], ['-s', 'size=4096']]) {
    test(`in use: cut while it is frozen, its log is replayed first (mkfs.xfs ${options.join(' ')})`, async () => {
      using scratch = new Scratch('xfs');
      const path = xfs(scratch, options);
      const clone = scratch.join('clone');
      const bytes = randomBytes(1 << 20);
      for (const [name, freezes] of [
        ['frozen', true],
        ['crashed', false],
      ] as const) {
        use(scratch, path, (directory) => {
          writeFileSync(`${directory}/${name}`, bytes);
          execFileSync('sync', ['-f', directory]);
          if (freezes) execFileSync('fsfreeze', ['--freeze', directory]);
          execFileSync('cp', ['--sparse=always', path, clone]);
          if (freezes) execFileSync('fsfreeze', ['--unfreeze', directory]);
        });
        await identify(clone);
        check(clone);
        use(scratch, clone, (directory) => assert.ok(readFileSync(`${directory}/${name}`).equals(bytes)));
        check(clone);
      }
    });
  }

  for (const unit of ['32k', '256k']) {
    test(`its log is read right wherever it stands, also when it has come round (records of ${unit})`, async () => {
      using scratch = new Scratch('xfs');
      const path = xfs(scratch, ['-l', `su=${unit}`]);
      for (let time = 0; time < 12; time++) {
        use(scratch, path, (directory) => turnLog(directory, unit === '32k' ? 530 : 67));
        const uuid = await identify(path);
        check(path);
        use(scratch, path, write);
        check(path);
        assert.equal(uuidOf(path), uuid);
      }
    });
  }

  test('a superblock that is damaged is left alone', async () => {
    using scratch = new Scratch('xfs');
    const path = xfs(scratch);
    for (const offset of [150, 0]) {
      const file = openSync(path, 'r+');
      writeSync(file, 'damage', offset);
      closeSync(file);
      const before = readFileSync(path);
      await assert.rejects(giveNewIdentity(queue, { path, fsType: 'xfs', blockSizeBytes: 512 }), DataLoss);
      assert.ok(readFileSync(path).equals(before));
    }
  });
});
