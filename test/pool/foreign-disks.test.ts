import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, constants, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { describe, test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { buildTable } from '../../src/pool/kinds/disk/gpt.ts';
import { listForPools } from '../../src/pool/kinds/disk/list.ts';
import { ResourceExhausted } from '../../src/volume/errors.ts';
import { fileOf, loopDisk, matchOf, openTestDisks } from '../support/disk-pool.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';
import { testSettings } from '../support/test-pool.ts';

const mebibyte = 2 ** 20;
const diskMebibytes = 64;
const endAt = (diskMebibytes - 1) * mebibyte;
const block = { content: { type: 'block' }, sizeBytes: 32n * BigInt(mebibyte) } as const;

function overwrite(path: string, bytes: Buffer, offsetBytes: number): void {
  const file = openSync(path, 'r+');
  writeSync(file, bytes, 0, bytes.length, offsetBytes);
  fsyncSync(file);
  closeSync(file);
}

function run(command: string, ...args: readonly string[]): void {
  execFileSync(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

/** What others put on disks, by how Holdfast tells it. */
const others: Readonly<Record<string, readonly [reason: RegExp, make: (path: string) => void]>> = {
  swap: [/it holds swap/, (path) => run('mkswap', path)],
  lvm: [/it holds LVM2_member/, (path) => run('pvcreate', '--yes', '--force', '--force', path)],
  btrfs: [/it holds btrfs/, (path) => run('mkfs.btrfs', '--force', '--quiet', '--mixed', path)],
  raid: [/it holds linux_raid_member|of an unknown kind/, (path) => overwrite(path, raidSuperblock(), 4096)],
  // A table whose first copy is lost: its partitions can be brought back from the second one.
  backup: [/of an unknown kind at its end/, (path) => overwrite(path, othersBackup(512), endAt)],
  // That of a disk that had other sectors when it was made.
  backup4k: [/of an unknown kind at its end/, (path) => overwrite(path, othersBackup(4096), endAt)],
  // A partition whose table is lost.
  partition: [/of an unknown kind/, (path) => run('mkfs.ext4', '-q', '-E', `offset=${mebibyte}`, path, '32m')],
};

/** A GPT's second copy, and of no table that we would write. */
function othersBackup(sectorBytes: number): Buffer {
  const geometry = { sizeBytes: BigInt(diskMebibytes * mebibyte), sectorBytes };
  const { backup } = buildTable(geometry, '01234567-89ab-4def-8123-456789abcdef');
  const end = Buffer.alloc(mebibyte);
  backup.bytes.copy(end, end.length - backup.bytes.length);
  const firstType = end.length - backup.bytes.length;
  end.writeUInt8(end.readUInt8(firstType) ^ 1, firstType);
  return end;
}

/** Version 1.2, of a disk in a RAID that is not assembled. */
function raidSuperblock(): Buffer {
  const bytes = Buffer.alloc(4096);
  bytes.writeUInt32LE(0xa92b4efc, 0);
  bytes.writeUInt32LE(1, 4);
  bytes.writeBigUInt64LE(8n, 144);
  return bytes;
}

/** Why each disk may not be taken. */
async function usesOf(scratch: Scratch, paths: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const own = { match: matchOf(paths), wipe: 'zero' } as const;
  const settings = { ...testSettings(scratch), sickAfterMs: 1000, keyFile: undefined, labels: {}, own };
  const sights = await listForPools([settings], new DiskQueue('disks', 4));
  return new Map(sights.map(({ devicePath, use }) => [devicePath, use]));
}

function checksum(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

describe("disks that are others'", () => {
  test('are not written to, whatever is on them; the commands of the document make them blank', async () => {
    using scratch = new Scratch('disks');
    const disks = Object.entries(others).map(([name, [reason, make]]) => {
      const path = loopDisk(scratch, name, diskMebibytes);
      make(path);
      run('sync', path);
      return { name, path, reason, before: checksum(fileOf(scratch, name)) };
    });
    const paths = disks.map(({ path }) => path);
    const uses = await usesOf(scratch, paths);
    for (const { name, path, reason } of disks) assert.match(uses.get(path) ?? '', reason, name);

    const pool = await openTestDisks(scratch, { match: matchOf(paths) });
    assert.equal((await pool.capacity()).availableBytes, 0n);
    await assert.rejects(pool.create(volumeSpec('v', block)), ResourceExhausted);
    await pool.close();
    for (const { before, name } of disks) assert.equal(checksum(fileOf(scratch, name)), before, name);

    for (const { path } of disks) execFileSync('sh', ['-c', blanking()], { env: { ...process.env, disk: path } });
    for (const [path, use] of await usesOf(scratch, paths)) {
      if (paths.includes(path)) assert.equal(use, 'blank: may be taken');
    }
  });

  test('a blank one that somebody has for himself, or that is read-only, is left alone', async () => {
    using scratch = new Scratch('disks');
    const held = loopDisk(scratch, 'held', diskMebibytes);
    const readonly = loopDisk(scratch, 'readonly', diskMebibytes);
    execFileSync('blockdev', ['--setro', readonly]);
    const holder = openSync(held, constants.O_RDONLY | constants.O_EXCL);
    const pool = await openTestDisks(scratch, { match: matchOf([held, readonly]) });
    await assert.rejects(pool.create(volumeSpec('v', block)), ResourceExhausted);
    const uses = await usesOf(scratch, [held, readonly]);
    assert.match(uses.get(held) ?? '', /it is in use/);
    assert.match(uses.get(readonly) ?? '', /it is read-only/);
    await pool.close();
    closeSync(holder);
    for (const name of ['held', 'readonly']) assert.ok(readFileSync(fileOf(scratch, name)).every((byte) => byte === 0));
  });
});

describe('a disk of ours that somebody wrote to', () => {
  /** Where, and what; the volume on it must still be there. */
  const damages: Readonly<Record<string, (path: string) => void>> = {
    'its first sector': (path) => overwrite(path, Buffer.alloc(512), 0),
    'its first mebibyte': (path) => overwrite(path, Buffer.alloc(mebibyte), 0),
    'both copies of its table': (path) => {
      overwrite(path, Buffer.alloc(mebibyte), 0);
      overwrite(path, Buffer.alloc(mebibyte), endAt);
    },
    'its label': (path) => overwrite(path, Buffer.alloc(mebibyte, 0x5a), mebibyte),
  };

  for (const [what, damage] of Object.entries(damages)) {
    test(`and who lost ${what} is not given to another volume`, async () => {
      using scratch = new Scratch('disks');
      const path = loopDisk(scratch, 'disk', diskMebibytes);
      const first = await openTestDisks(scratch, { match: matchOf([path]) });
      const { id } = await first.create(volumeSpec('v', block));
      await first.close();
      overwrite(path, Buffer.from('precious'), 2 * mebibyte);
      damage(path);
      const before = checksum(fileOf(scratch, 'disk'));
      const pool = await openTestDisks(scratch, { match: matchOf([path]) });
      await assert.rejects(pool.create(volumeSpec('w', block)), ResourceExhausted);
      assert.equal((await pool.condition(id)).abnormal, true);
      await pool.close();
      assert.match((await usesOf(scratch, [path])).get(path) ?? '', /^no: /);
      assert.equal(checksum(fileOf(scratch, 'disk')), before);
    });
  }

  test('a free one is not given away: not one that somebody has, nor one with swap over its table', async () => {
    using scratch = new Scratch('disks');
    const path = loopDisk(scratch, 'disk', diskMebibytes);
    const pool = await openTestDisks(scratch, { match: matchOf([path]), wipe: 'none' });
    const usedAndFreed = async (name: string) => {
      await pool.remove((await pool.create(volumeSpec(name, block))).id);
      await eventually(async () => assert.equal((await pool.capacity()).availableBytes, 61n << 20n));
    };
    await usedAndFreed('first');
    const holder = openSync(path, constants.O_RDONLY | constants.O_EXCL);
    await assert.rejects(pool.create(volumeSpec('held', block)), ResourceExhausted);
    closeSync(holder);
    await usedAndFreed('released');
    run('mkswap', path);
    run('sync', path);
    const before = checksum(fileOf(scratch, 'disk'));
    await assert.rejects(pool.create(volumeSpec('swap', block)), ResourceExhausted);
    assert.equal(checksum(fileOf(scratch, 'disk')), before);
    await pool.close();
  });
});

/** What docs/disks.md says that makes a disk blank. */
function blanking(): string {
  const text = readFileSync(new URL('../../docs/disks.md', import.meta.url), 'utf8');
  return /```sh\n([^`]*blkdiscard[^`]*)```/.exec(text)?.[1] ?? assert.fail('docs/disks.md has no such commands');
}
