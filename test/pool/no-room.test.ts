import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { describe, test } from 'node:test';
import { loopStatus } from '../../src/kernel/block/loop.ts';
import { loopNumber } from '../../src/kernel/block/loop-sysfs.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { attachDevice } from '../../src/pool/attached-device.ts';
import type { Catalog } from '../../src/pool/catalog/catalog.ts';
import { snapshotIdFor, type VolumeId } from '../../src/volume/id.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Random, testSeed } from '../support/random.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('test', 4);
const seed = testSeed();
const mebibyte = 1 << 20;
const volumeMebibytes = 32;
const block = { type: 'block' } as const;
const spec = { content: block, sizeBytes: BigInt(volumeMebibytes * mebibyte) };

describe('a write to blocks that a snapshot shares, on a disk that somebody else has filled', () => {
  test('past the cache: all that was answered is there', async () => {
    using scratch = new Scratch('no-room');
    const directory = mountDisk(scratch);
    const pool = await openTestPool(scratch, { location: { type: 'directory', path: `${directory}/pool` } });
    const random = new Random(seed);
    for (let round = 0; round < 10; round++) {
      const { id } = await pool.create(volumeSpec(`v${round}`, spec));
      await write(pool, id, '\0');
      await cut(pool, id);
      leaveFree(directory, 4 * mebibyte + 4096 * random.integer(0, 1024));
      const answered = await write(pool, id, 'Z');
      assert.ok(answered < volumeMebibytes, 'there is room for all');
      const image = readFileSync(imageOf(directory, id)).subarray(0, answered * mebibyte);
      const place = image.findIndex((byte) => byte !== 0x5a);
      assert.equal(place, -1, `seed ${seed}, round ${round}: ${answered} MiB were answered`);
      rmSync(`${directory}/foreign`);
      await pool.removeSnapshot(snapshotIdFor('node', id));
      await pool.remove(id);
    }
    await pool.close();
  });

  test('into the cache: a sync says that it is not there', async () => {
    using scratch = new Scratch('no-room');
    const directory = mountDisk(scratch);
    const pool = await openTestPool(scratch, { location: { type: 'directory', path: `${directory}/pool` } });
    const { id } = await pool.create(volumeSpec('v', spec));
    await write(pool, id, '\0');
    await cut(pool, id);
    const attached = await attachDevice(pool, id, { persistent: true });
    await attached.release();
    const file = openSync(attached.devicePath, 'r+');
    // Each write below begins with a block that is the volume's own, for which there is room.
    for (let offset = 0; offset < volumeMebibytes * mebibyte; offset += 64 << 10) {
      writeSync(file, Buffer.alloc(4096, 'Y'), 0, 4096, offset);
    }
    fsyncSync(file);
    execFileSync('xfs_spaceman', ['-c', 'prealloc -s', directory]);
    leaveFree(directory, mebibyte);
    writeSync(file, Buffer.alloc(volumeMebibytes * mebibyte, 'Z'), 0, volumeMebibytes * mebibyte, 0);
    assert.throws(() => fsyncSync(file), { code: 'EIO' });
    closeSync(file);
    await pool.detach(attached);
    await pool.close();
  });
});

describe('direct I/O', () => {
  const contents = [
    block,
    ...(['ext4', 'xfs', 'btrfs'] as const).map((fsType) => ({ type: 'mount', fsType }) as const),
  ];
  for (const content of contents) {
    const name = content.type === 'block' ? 'block' : content.fsType;
    test(`${name}: the device of a volume does it, also once a snapshot shares its blocks`, async () => {
      using scratch = new Scratch('no-room');
      const directory = mountDisk(scratch);
      const pool = await openTestPool(scratch, { location: { type: 'directory', path: `${directory}/pool` } });
      const { id } = await pool.create(volumeSpec('v', { content, sizeBytes: BigInt(300 * mebibyte) }));
      assert.equal(await doesDirectIo(pool, id), true);
      await cut(pool, id);
      assert.equal(await doesDirectIo(pool, id), true);
      await pool.close();
    });
  }
});

/** An XFS of 2 GiB. */
function mountDisk(scratch: Scratch): string {
  const directory = scratch.join('disk');
  mkdirSync(directory);
  execFileSync('truncate', ['--size=2G', `${directory}.img`]);
  execFileSync('mkfs.xfs', ['-q', `${directory}.img`]);
  execFileSync('mount', ['-o', 'loop', `${directory}.img`, directory]);
  return directory;
}

function leaveFree(directory: string, bytes: number): void {
  const { bavail, bsize } = statfsSync(directory);
  execFileSync('fallocate', [`--length=${bavail * bsize - bytes}`, `${directory}/foreign`]);
}

function imageOf(directory: string, id: VolumeId): string {
  return `${directory}/pool/volumes/${id}/data`;
}

function cut(pool: Catalog, sourceId: VolumeId): Promise<unknown> {
  return pool.takeSnapshots([{ id: snapshotIdFor('node', sourceId), name: sourceId, sourceId, parameters: {} }]);
}

/** Each MiB of the volume past the cache, one after the other, until there is no room: how many of them were answered. */
async function write(pool: Catalog, id: VolumeId, letter: string): Promise<number> {
  const attached = await attachDevice(pool, id, { persistent: true });
  await attached.release();
  const input = Buffer.alloc(volumeMebibytes * mebibyte, letter);
  const parameters = [
    `of=${attached.devicePath}`,
    'bs=1M',
    'iflag=fullblock',
    'oflag=direct',
    `count=${volumeMebibytes}`,
  ];
  const { stderr } = spawnSync('dd', parameters, { encoding: 'utf8', input });
  await pool.detach(attached);
  return Number(/^(\d+)\+\d+ records out$/m.exec(stderr)?.[1]);
}

async function doesDirectIo(pool: Catalog, id: VolumeId): Promise<boolean | undefined> {
  const { device, release } = await attachDevice(pool, id, { persistent: false });
  try {
    return (await loopStatus(queue, loopNumber(device) ?? -1))?.directIo;
  } finally {
    await release();
  }
}
