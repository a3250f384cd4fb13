/**
 * Runs in the virtual machine: thin pools in which LVM, the kernel or somebody else has left something in the middle.
 * node thin-trouble-in-guest.ts DISK…
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { channel } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { closeSync, fsyncSync, openSync, readdirSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { DeviceMapper } from '../../../src/kernel/block/device-mapper.ts';
import { DiskQueue } from '../../../src/kernel/call/disk-queue.ts';
import { attachDevice, type DeviceAttachment } from '../../../src/pool/attached-device.ts';
import type { Catalog } from '../../../src/pool/catalog/catalog.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import { Aborted, DataLoss, ResourceExhausted } from '../../../src/volume/errors.ts';
import { snapshotIdFor, type VolumeId } from '../../../src/volume/id.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { groupFor, guestArguments, lvm, openTestLvm } from '../../support/lvm-pool.ts';
import { mountedDevice, withMounted } from '../../support/mounted-volume.ts';
import { Scratch } from '../../support/scratch.ts';
import { idOf } from './operations.ts';

const { disks } = guestArguments();
const mebibyte = 1n << 20n;
/** On a busy machine. */
const patienceMs = 600_000;
const block = { type: 'block' } as const;
const unwatched = ['--config', 'activation{monitoring=0 udev_sync=0 udev_rules=0}'];

function withThinPool(scratch: Scratch): Promise<Catalog> {
  const thinPool = { sizeBytes: 128n * mebibyte, metadataBytes: undefined, overcommit: 8 };
  return openTestLvm(scratch, groupFor(scratch, disks), { thinPool });
}

async function makeBlock(pool: Pool, name: string, sizeBytes: bigint): Promise<DeviceAttachment> {
  const { id } = await pool.create(volumeSpec(name, { content: block, sizeBytes }));
  const attachment = await attachDevice(pool, id, { persistent: true });
  await attachment.release();
  return attachment;
}

const snapshotOf = (sourceId: VolumeId) => ({ id: snapshotIdFor('node', 's'), name: 's', sourceId, parameters: {} });

/** As device-mapper calls it. */
function mappedName(volumeGroup: string, lvName: string): string {
  return `${volumeGroup.replaceAll('-', '--')}-${lvName.replaceAll('-', '--')}`;
}

function lvOf(volumeGroup: string, start: string): string {
  const names = lvm('lvs', '--noheadings', '-o', 'lv_name', volumeGroup).trim().split(/\s+/);
  return names.find((name) => name.startsWith(start)) ?? '';
}

/** The names of devices that are suspended. */
function suspended(): string[] {
  const fields = ['info', '--columns', '--noheadings', '--separator', ' ', '-o', 'name,suspended'];
  const lines = execFileSync('dmsetup', fields, { encoding: 'utf8' }).trim().split('\n');
  return lines.flatMap((line) => (line.endsWith(' Suspended') ? [line.split(' ')[0] ?? ''] : []));
}

/** Something happens at a step of an operation. */
async function atStep<T>(happens: Readonly<Record<string, () => void>>, work: () => Promise<T>): Promise<T> {
  const steps = channel('holdfast:step');
  const onStep = (name: unknown) => happens[String(name)]?.();
  steps.subscribe(onStep);
  try {
    return await work();
  } finally {
    steps.unsubscribe(onStep);
  }
}

function writeAt(devicePath: string, text: string): void {
  const file = openSync(devicePath, 'r+');
  try {
    writeSync(file, Buffer.alloc(1 << 16, text));
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** Kills LVM as soon as it has suspended that device. @returns whether something was left suspended */
async function killWhenSuspended(name: string, args: readonly string[]): Promise<boolean> {
  const mapper = await DeviceMapper.open(new DiskQueue('test', 1));
  const child = spawn('lvm', args, { stdio: 'ignore' });
  const ended = once(child, 'exit');
  while (child.exitCode === null && child.signalCode === null) {
    if (mapper.find(name)?.isSuspended === true) child.kill('SIGKILL');
    await turn();
  }
  await ended;
  return suspended().length > 0;
}

/** At once: another program would come too late. */
function killLvm(): void {
  for (const pid of readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name))) {
    if (nameOf(pid) === 'lvm') process.kill(Number(pid), 'SIGKILL');
  }
}

function nameOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
  } catch {
    // It has ended meanwhile.
    return '';
  }
}

test('T04: what an LVM leaves suspended that was killed while it grew the thin pool goes on at the next start', async () => {
  using scratch = new Scratch('grown');
  const volumeGroup = groupFor(scratch, disks);
  const pool = await withThinPool(scratch);
  const inUse = await makeBlock(pool, 'a', 64n * mebibyte);
  const file = openSync(inUse.devicePath, 'r+');
  try {
    await pool.close();
    const poolName = mappedName(volumeGroup, 'holdfast-thin');
    const grow = ['lvextend', ...unwatched, '--extents', '+1', `${volumeGroup}/holdfast-thin`];
    for (let round = 0; round < 20 && !(await killWhenSuspended(`${poolName}-tpool`, grow)); round++);
    assert.ok(suspended().length > 0, 'LVM was never killed in the middle');
    const again = await withThinPool(scratch);
    assert.deepEqual(suspended(), []);
    writeAt(inUse.devicePath, 'goes on');
    const { id } = await again.create(volumeSpec('b', { content: block }));
    await again.remove(id);
    await again.close();
  } finally {
    closeSync(file);
  }
});

test('T04: a volume in use whose growth was killed goes on at once, and has its size after the next try', async () => {
  using scratch = new Scratch('killed');
  const volumeGroup = groupFor(scratch, disks);
  const pool = await withThinPool(scratch);
  const inUse = await makeBlock(pool, 'a', 16n * mebibyte);
  const name = mappedName(volumeGroup, lvOf(volumeGroup, 'vol-'));
  const mapper = await DeviceMapper.open(new DiskQueue('test', 1));
  let sizeBytes = 16n * mebibyte;
  let killed = 0;
  for (let round = 0; round < 12; round++) {
    sizeBytes += 4n * mebibyte;
    const growing = { done: false };
    const outcome = pool
      .grow(idOf('a'), sizeBytes)
      .then(
        () => true,
        () => false,
      )
      .finally(() => {
        growing.done = true;
      });
    while (!growing.done) {
      if (mapper.find(name)?.isSuspended === true) {
        killLvm();
        break;
      }
      await turn();
    }
    if (!(await outcome)) killed++;
    assert.deepEqual(suspended(), [], `round ${round}`);
    writeAt(inUse.devicePath, `round ${round}`);
    await pool.grow(idOf('a'), sizeBytes);
    const deviceBytes = execFileSync('blockdev', ['--getsize64', inUse.devicePath], { encoding: 'utf8' });
    assert.equal(BigInt(deviceBytes.trim()), sizeBytes, `round ${round}`);
  }
  assert.ok(killed > 0, 'LVM was never killed in the middle');
  await pool.detach(inUse);
  await pool.close();
});

test('who writes to a raw volume does not wait longer than it is said for its snapshot either', async () => {
  using scratch = new Scratch('raw');
  const metadata = mappedName(groupFor(scratch, disks), 'holdfast-thin_tmeta');
  const pool = await withThinPool(scratch);
  const inUse = await makeBlock(pool, 'a', 16n * mebibyte);
  const hang = () => void execFileSync('dmsetup', ['suspend', metadata]);
  const taking = atStep({ 'instant/take': hang }, () => pool.takeSnapshots([snapshotOf(idOf('a'))]));
  const refused = assert.rejects(taking, Aborted);
  try {
    await eventually(() => assert.equal(suspended().length, 2), patienceMs);
    await eventually(() => assert.deepEqual(suspended(), [metadata]), patienceMs);
  } finally {
    execFileSync('dmsetup', ['resume', metadata]);
  }
  await refused;
  assert.deepEqual(await pool.listSnapshots(undefined, undefined), []);
  await pool.detach(inUse);
  await pool.close();
});

test('Q02: a pool that is given up during a snapshot leaves no volume suspended', async () => {
  using scratch = new Scratch('given-up');
  const pool = await withThinPool(scratch);
  const inUse = await makeBlock(pool, 'a', 16n * mebibyte);
  const giveUp = () => pool.queue.close(new Error('the disk is sick'));
  await assert.rejects(
    atStep({ 'instant/take': giveUp }, () => pool.takeSnapshots([snapshotOf(idOf('a'))])),
    /the disk is sick/,
  );
  await eventually(() => assert.deepEqual(suspended(), []), patienceMs);
  pool.abandon();
  const again = await withThinPool(scratch);
  assert.deepEqual(await again.listSnapshots(undefined, undefined), []);
  await again.detach(inUse);
  await again.close();
});

test('a volume in use that was made larger by hand is in its snapshot to its last block', async () => {
  using scratch = new Scratch('larger');
  const volumeGroup = groupFor(scratch, disks);
  const pool = await withThinPool(scratch);
  const sizeBytes = 48n * mebibyte;
  const { id } = await pool.create(volumeSpec('a', { sizeBytes, content: { type: 'mount', fsType: 'ext4' } }));
  const content = Buffer.alloc(60 << 20, 7);
  {
    await using inUse = await mountedDevice(pool, id, scratch);
    lvm('lvextend', ...unwatched, '--size', '+48m', `${volumeGroup}/${lvOf(volumeGroup, 'vol-')}`);
    execFileSync('resize2fs', [inUse.devicePath], { stdio: 'pipe' });
    writeFileSync(`${inUse.path}/file`, content);
    await pool.takeSnapshots([snapshotOf(id)]);
  }
  const copy = await pool.create(volumeSpec('copy', { sizeBytes }), {
    type: 'snapshot',
    id: snapshotIdFor('node', 's'),
  });
  await withMounted(pool, copy.id, scratch, (path) => assert.ok(readFileSync(`${path}/file`).equals(content)));
  await pool.close();
});

test('a snapshot whose commit fails is not answered, and the error says what the pool has', async () => {
  using scratch = new Scratch('commit');
  const metadata = mappedName(groupFor(scratch, disks), 'holdfast-thin_tmeta');
  const pool = await withThinPool(scratch);
  const inUse = await makeBlock(pool, 'a', 16n * mebibyte);
  writeAt(inUse.devicePath, 'content');
  const table = execFileSync('dmsetup', ['table', metadata], { encoding: 'utf8' }).trim();
  const [start, length, , device, offset] = table.split(' ');
  const become = (text: string) => {
    execFileSync('dmsetup', ['suspend', '--noflush', '--nolockfs', metadata]);
    execFileSync('dmsetup', ['load', metadata, '--table', text]);
    execFileSync('dmsetup', ['resume', metadata]);
  };
  const fails = () => become(`${start} ${length} flakey ${device} ${offset} 0 86400 1 error_writes`);
  const works = () => become(table);
  await assert.rejects(
    atStep({ 'instant/take': fails, 'instant/resume': works }, () => pool.takeSnapshots([snapshotOf(idOf('a'))])),
    (error) => error instanceof ResourceExhausted && /thin pool cannot be written to/.test(error.message),
  );
  assert.deepEqual(await pool.listSnapshots(undefined, undefined), []);
  await pool.detach(inUse);
  await pool.close();
});

test("what LVM takes for a new volume and is another's is not given away, and not removed", async () => {
  using scratch = new Scratch('orphan');
  const volumeGroup = groupFor(scratch, disks);
  const pool = await withThinPool(scratch);
  const first = await makeBlock(pool, 'a', 16n * mebibyte);
  writeAt(first.devicePath, 'secret');
  await pool.detach(first);
  const numbers = lvm('lvs', '--noheadings', '-o', 'thin_id', volumeGroup).trim().split(/\s+/).map(Number);
  const taken = Math.max(...numbers);
  const message = `create_snap ${taken + 1} ${taken}`;
  execFileSync('dmsetup', ['message', `${mappedName(volumeGroup, 'holdfast-thin')}-tpool`, '0', message]);
  await assert.rejects(pool.create(volumeSpec('b', { content: block, sizeBytes: 16n * mebibyte })), DataLoss);
  const second = await makeBlock(pool, 'b', 16n * mebibyte);
  assert.ok(!readFileSync(second.devicePath).includes('secret'));
  await pool.detach(second);
  await pool.close();
  const again = await withThinPool(scratch);
  await again.close();
  const left = lvm('lvs', '--noheadings', '-o', 'lv_name', '--select', 'tags=""', volumeGroup).trim();
  lvm('lvchange', ...unwatched, '--ignoreactivationskip', '--activate', 'y', `${volumeGroup}/${left}`);
  assert.ok(readFileSync(`/dev/${volumeGroup}/${left}`).includes('secret'));
});
