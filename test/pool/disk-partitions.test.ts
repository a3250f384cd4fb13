import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
  watch,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { basename } from 'node:path';
import { describe, test } from 'node:test';
import { attachDevice, type DeviceAttachment } from '../../src/pool/attached-device.ts';
import { loopDisk, matchOf, openTestDisks } from '../support/disk-pool.ts';
import { eventually } from '../support/eventually.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { withMounted } from '../support/mounted-volume.ts';
import { Scratch } from '../support/scratch.ts';

const block = { content: { type: 'block' }, sizeBytes: 32n << 20n } as const;

/** What udev does when somebody closes the disk who could write to it. */
function rereadTable(diskPath: string): 'done' | 'refused' {
  const { status, stderr } = spawnSync('blockdev', ['--rereadpt', diskPath], { encoding: 'utf8' });
  if (status === 0) return 'done';
  assert.match(stderr, /busy/);
  return 'refused';
}

function partitionsOf(diskPath: string): string[] {
  const name = basename(diskPath);
  const listed = execFileSync('ls', [`/sys/block/${name}`], { encoding: 'utf8' });
  return listed.split('\n').filter((entry) => entry.startsWith(name));
}

/** A pod's: its own node, or a mount of the one that there was. It has it open now and then. */
class Published {
  readonly path: string;
  readonly #number: number;

  constructor(scratch: Scratch, { devicePath }: DeviceAttachment) {
    this.path = scratch.join('published');
    this.#number = statSync(devicePath).rdev;
    writeFileSync(this.path, '');
    execFileSync('mount', ['--bind', devicePath, this.path]);
  }

  write(text: string): void {
    const descriptor = openSync(this.path, 'r+');
    writeSync(descriptor, text, 0);
    fsyncSync(descriptor);
    closeSync(descriptor);
  }

  assertReads(text: string, devicePath: string): void {
    assert.equal(statSync(devicePath).rdev, this.#number);
    const bytes = Buffer.alloc(text.length);
    const descriptor = openSync(this.path, 'r');
    readSync(descriptor, bytes, 0, bytes.length, 0);
    closeSync(descriptor);
    assert.equal(bytes.toString(), text);
  }

  withdraw(): void {
    execFileSync('umount', [this.path]);
  }
}

describe('the partition of a raw block volume', () => {
  test('stays while it is attached, though nobody has it open and the table is read anew; also after a restart', async () => {
    using scratch = new Scratch('disk-partitions');
    const disk = loopDisk(scratch, 'only', 64);
    const open = () => openTestDisks(scratch, { match: matchOf([disk]) });
    let pool = await open();
    const { id } = await pool.create(volumeSpec('v', block));
    assert.deepEqual(partitionsOf(disk), []);

    const attachment = await attachDevice(pool, id, { persistent: true });
    await attachment.release();
    const published = new Published(scratch, attachment);
    published.write('first');
    assert.equal(rereadTable(disk), 'refused');
    published.assertReads('first', attachment.devicePath);

    await pool.close();
    pool = await open();
    assert.equal(rereadTable(disk), 'refused');
    published.assertReads('first', attachment.devicePath);
    published.write('again');
    assert.equal((await pool.inUse(id)).length, 1);

    published.withdraw();
    await pool.detach(attachment);
    assert.deepEqual(partitionsOf(disk), []);
    assert.equal(rereadTable(disk), 'done');
    assert.deepEqual(await pool.inUse(id), []);
    await pool.remove(id);
    await pool.close();
  });

  test('a driver that starts holds only what is shown somewhere', async () => {
    using scratch = new Scratch('disk-partitions');
    const disk = loopDisk(scratch, 'only', 64);
    const open = () => openTestDisks(scratch, { match: matchOf([disk]) });
    const before = await open();
    const { id } = await before.create(volumeSpec('v', block));
    await (await before.attach(id, { persistent: true })).release();
    await before.close();
    const pool = await open();
    assert.deepEqual(await pool.attached(id), []);
    assert.equal(rereadTable(disk), 'done');
    await pool.close();
  });
});

describe('udev', () => {
  test('hears of no write to a disk: it watches the node in /dev', async () => {
    using scratch = new Scratch('disk-partitions');
    const disk = loopDisk(scratch, 'only', 64);
    const heard: string[] = [];
    using watcher = closing(watch(disk, (event) => heard.push(event)));
    const pool = await openTestDisks(scratch, { match: matchOf([disk]) });
    const { id } = await pool.create(volumeSpec('v', { sizeBytes: 32n << 20n }));
    await withMounted(pool, id, scratch, (path) => writeFileSync(`${path}/file`, 'here'));
    await pool.remove(id);
    await eventually(async () => assert.equal((await pool.capacity()).availableBytes, 61n << 20n));
    await pool.close();
    assert.deepEqual(heard, []);

    // Of others' writes it does hear.
    writeSectorAsItIs(disk);
    await eventually(() => assert.notDeepEqual(heard, []));
    assert.ok(watcher);
  });
});

function closing<T extends { close(): void }>(closable: T): T & Disposable {
  return Object.assign(closable, { [Symbol.dispose]: () => closable.close() });
}

function writeSectorAsItIs(diskPath: string): void {
  const sector = readFileSync(diskPath).subarray(0, 512);
  const descriptor = openSync(diskPath, 'r+');
  writeSync(descriptor, sector);
  closeSync(descriptor);
}
