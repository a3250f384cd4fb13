/**
 * Runs in the virtual machine: what only pools of thin volumes have, on real LVM.
 * node thin-in-guest.ts DISK…
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { channel } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, readSync, writeFileSync, writeSync } from 'node:fs';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { attachDevice, type DeviceAttachment } from '../../../src/pool/attached-device.ts';
import { lookAtLvmPool } from '../../../src/pool/kinds/lvm/look.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import { FailedPrecondition, ResourceExhausted } from '../../../src/volume/errors.ts';
import { snapshotIdFor, type VolumeId } from '../../../src/volume/id.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { groupFor, guestArguments, type LvmTestOptions, lvm, openTestLvm } from '../../support/lvm-pool.ts';
import { mounted, withMounted } from '../../support/mounted-volume.ts';
import { Scratch } from '../../support/scratch.ts';
import { testSettings } from '../../support/test-pool.ts';
import { idOf } from './operations.ts';

const { disks } = guestArguments();
const mebibyte = 1n << 20n;
/** On a busy machine. */
const patienceMs = 600_000;
const block = { type: 'block' } as const;
/** Not waited for by the whole process: LVM of the driver has the lock until somebody has read what it says of so many. */
const lvmBeside = promisify(execFile);

async function attach(pool: Pool, id: VolumeId): Promise<DeviceAttachment> {
  const attachment = await attachDevice(pool, id, { persistent: true });
  await attachment.release();
  return attachment;
}

async function makeBlock(pool: Pool, name: string, sizeBytes: bigint): Promise<DeviceAttachment> {
  const { id } = await pool.create(volumeSpec(name, { content: block, sizeBytes }));
  return attach(pool, id);
}

const pieceBytes = 8n * mebibyte;

/** Writes a byte all over a device, past the page cache. @returns its exit code */
async function fill({ devicePath }: DeviceAttachment, byte: number, sizeBytes: bigint): Promise<number> {
  using scratch = new Scratch('pattern');
  const path = scratch.join('piece');
  writeFileSync(path, Buffer.alloc(Number(pieceBytes), byte));
  const pieces = Array.from({ length: Number(sizeBytes / pieceBytes) }, () => path).join(' ');
  const child = spawn('sh', [
    '-c',
    `cat ${pieces} | dd of=${devicePath} bs=1M iflag=fullblock oflag=direct conv=fsync,notrunc`,
  ]);
  const [code] = await once(child, 'exit');
  return Number(code);
}

function holds({ devicePath }: DeviceAttachment, byte: number, sizeBytes: bigint): boolean {
  execFileSync('blockdev', ['--flushbufs', devicePath]);
  const expected = Buffer.alloc(Number(mebibyte), byte);
  const found = Buffer.alloc(Number(mebibyte));
  const file = openSync(devicePath, 'r');
  try {
    for (let at = 0n; at < sizeBytes; at += mebibyte) {
      readSync(file, found, 0, found.length, Number(at));
      if (!found.equals(expected)) return false;
    }
    return true;
  } finally {
    closeSync(file);
  }
}

/** Takes what is free of the group, so that nothing can grow. */
function takeAllElse(volumeGroup: string): void {
  lvm(
    'lvcreate',
    '--yes',
    '--activate',
    'n',
    '--zero',
    'n',
    '--wipesignatures',
    'n',
    '--extents',
    '100%FREE',
    '--name',
    'foreign',
    volumeGroup,
  );
}

/** The names of devices that are suspended. */
function suspended(): string[] {
  const fields = ['info', '--columns', '--noheadings', '--separator', ' ', '-o', 'name,suspended'];
  const lines = execFileSync('dmsetup', fields, { encoding: 'utf8' }).trim().split('\n');
  return lines.flatMap((line) => (line.endsWith(' Suspended') ? [line.split(' ')[0] ?? ''] : []));
}

function lvOf(volumeGroup: string, start: string): string {
  const names = lvm('lvs', '--noheadings', '-o', 'lv_name', volumeGroup).trim().split(/\s+/);
  return names.find((name) => name.startsWith(start)) ?? '';
}

const poolText = (volumeGroup: string) =>
  execFileSync('dmsetup', ['status', '--noflush', `${volumeGroup.replaceAll('-', '--')}-holdfast--thin-tpool`], {
    encoding: 'utf8',
  });

async function assertTold(pool: Pool, id: VolumeId): Promise<void> {
  await eventually(async () => assert.equal((await pool.condition(id)).abnormal, true), patienceMs);
  assert.equal((await pool.usage()).isNearlyFull, true);
  assert.equal((await pool.capacity()).availableBytes, 0n);
  await assert.rejects(pool.create(volumeSpec('one too many', { content: block })), ResourceExhausted);
  const snapshot = { id: snapshotIdFor('node', 'too many'), name: 'too many', sourceId: id, parameters: {} };
  await assert.rejects(pool.takeSnapshots([snapshot]), ResourceExhausted);
}

function withThinPool(scratch: Scratch, options: LvmTestOptions = {}): Promise<Pool> {
  const thinPool = { sizeBytes: 128n * mebibyte, metadataBytes: undefined, overcommit: 8 };
  return openTestLvm(scratch, groupFor(scratch, disks), { thinPool, ...options });
}

test('a thin pool that is filled to its last block tells it before, loses nothing, and goes on when it has grown', async () => {
  using scratch = new Scratch('full');
  const volumeGroup = groupFor(scratch, disks);
  const pool = await withThinPool(scratch);
  // A machine without its own clock may take longer for a command than the kernel lets writers wait.
  writeFileSync('/sys/module/dm_thin_pool/parameters/no_space_timeout', '0');
  const sizeBytes = 64n * mebibyte;
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'];
  const devices = [];
  for (const name of names) devices.push(await makeBlock(pool, name, sizeBytes));
  takeAllElse(volumeGroup);
  const [first, second, ...others] = devices;
  assert.ok(first && second);
  assert.equal(await fill(first, 1, sizeBytes), 0);
  assert.equal((await pool.condition(idOf('a'))).abnormal, false);
  assert.equal(await fill(second, 2, sizeBytes - pieceBytes), 0);
  await assertTold(pool, idOf('a'));
  assert.match(poolText(volumeGroup), / rw /);
  // Eight at once, until there is no block left.
  const writers = [second, ...others].map((device, index) => fill(device, index + 2, sizeBytes));
  await eventually(() => assert.match(poolText(volumeGroup), / out_of_data_space /), patienceMs);
  await eventually(
    async () => assert.match((await pool.condition(idOf('c'))).message, /thin pool is full: writes wait/),
    patienceMs,
  );
  lvm('lvremove', '--yes', `${volumeGroup}/foreign`);
  assert.deepEqual(new Set(await Promise.all(writers)), new Set([0]));
  for (const [index, device] of devices.entries()) assert.ok(holds(device, index + 1, sizeBytes), `${index}`);
  await eventually(async () => assert.equal((await pool.condition(idOf('a'))).abnormal, false), patienceMs);
  for (const device of devices) await pool.detach(device);
  for (const name of names) await pool.remove(idOf(name));
  await eventually(async () => assert.ok((await pool.usage()).capacity.usedBytes < mebibyte), patienceMs);
  const fresh = await makeBlock(pool, 'fresh', sizeBytes);
  assert.ok(holds(fresh, 0, sizeBytes), "another one's data is read");
  await pool.detach(fresh);
  await pool.close();
});

test('metadata that is driven to its limit is told before, nothing is lost, and it goes on when it has grown', async () => {
  using scratch = new Scratch('metadata');
  const volumeGroup = groupFor(scratch, disks);
  const thinPool = { sizeBytes: 512n * mebibyte, metadataBytes: 4n * mebibyte, overcommit: 1 };
  const pool = await withThinPool(scratch, { thinPool });
  const sizeBytes = 128n * mebibyte;
  const device = await makeBlock(pool, 'a', sizeBytes);
  takeAllElse(volumeGroup);
  assert.equal(await fill(device, 1, sizeBytes), 0);
  const lvName = lvm('lvs', '--noheadings', '-o', 'lv_name', volumeGroup).match(/vol-\S+/)?.[0] ?? '';
  let count = 0;
  /** Each leaf of the map has to be copied then, for a byte in it. */
  const spend = async () => {
    const words = ['--yes', '--snapshot', '--activate', 'n', '--name', `spent-${++count}`, `${volumeGroup}/${lvName}`];
    await lvmBeside('lvm', ['lvcreate', '--config', 'activation{monitoring=0}', ...words]);
    const file = openSync(device.devicePath, 'r+');
    for (let at = 0n; at < sizeBytes; at += 4n * mebibyte) writeSync(file, Buffer.alloc(4096, 1), 0, 4096, Number(at));
    try {
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
  };
  // At that point LVM refuses, too, and may be the first to see it.
  let refused = false;
  while (!refused && !(await pool.usage()).isNearlyFull)
    refused = await spend().then(
      () => false,
      () => true,
    );
  await assertTold(pool, idOf('a'));
  assert.match(poolText(volumeGroup), / rw /);
  // Others may go on all the same.
  await assert.rejects(async () => {
    while (count < 400) await spend();
  });
  assert.doesNotMatch(poolText(volumeGroup), /needs_check|Fail/);
  await lvmBeside('lvm', ['lvremove', '--yes', `${volumeGroup}/foreign`]);
  await eventually(() => assert.match(poolText(volumeGroup), / rw /), patienceMs);
  await eventually(async () => assert.equal((await pool.condition(idOf('a'))).abnormal, false), patienceMs);
  assert.ok(holds(device, 1, sizeBytes));
  assert.equal(await fill(device, 2, sizeBytes), 0);
  assert.ok(holds(device, 2, sizeBytes));
  await pool.detach(device);
  await pool.close();
});

test('what volumes own is known again when all were inactive', async () => {
  using scratch = new Scratch('again');
  const pool = await withThinPool(scratch);
  const sizeBytes = 32n * mebibyte;
  const device = await makeBlock(pool, 'a', sizeBytes);
  assert.equal(await fill(device, 1, sizeBytes), 0);
  await pool.detach(device);
  const before = await pool.capacity();
  await pool.close();
  assert.equal(execFileSync('dmsetup', ['ls'], { encoding: 'utf8' }).includes('holdfast'), false);
  const again = await withThinPool(scratch);
  const after = await again.capacity();
  assert.deepEqual(after, before);
  assert.deepEqual(await again.attached(idOf('a')), []);
  await again.close();
});

test('after snapshots of volumes in use LVM and the kernel agree, and nothing is left suspended', async () => {
  using scratch = new Scratch('agree');
  const volumeGroup = groupFor(scratch, disks);
  const pool = await withThinPool(scratch);
  const { id } = await pool.create(volumeSpec('a', { sizeBytes: 64n * mebibyte }));
  {
    await using inUse = await mounted(pool, id, scratch);
    writeFileSync(`${inUse.path}/file`, 'content');
    const snapshot = { id: snapshotIdFor('node', 'cut'), name: 'cut', sourceId: id, parameters: {} };
    await pool.takeSnapshots([snapshot]);
    await pool.create(volumeSpec('clone', { sizeBytes: 96n * mebibyte }), { type: 'volume', id });
    assert.deepEqual(suspended(), []);
    assert.equal(existsSync(`/dev/${volumeGroup}/${lvOf(volumeGroup, 'snap')}`), false);
  }
  await withMounted(pool, idOf('clone'), scratch, (path) =>
    assert.equal(readFileSync(`${path}/file`, 'utf8'), 'content'),
  );
  await pool.close();
  // It compares what LVM has noted with what the kernel's thin pool says.
  lvm('vgchange', '--config', 'activation{monitoring=0}', '--ignoreactivationskip', '--activate', 'y', volumeGroup);
  lvm('vgchange', '--activate', 'n', volumeGroup);
  const again = await withThinPool(scratch);
  for (const volume of ['a', 'clone']) await again.remove(idOf(volume));
  await again.removeSnapshot(snapshotIdFor('node', 'cut'));
  await eventually(async () => assert.ok((await again.usage()).capacity.usedBytes < mebibyte), patienceMs);
  await again.close();
});

test('writers do not wait longer than it is said for a snapshot that does not come to an end', async () => {
  using scratch = new Scratch('late');
  const volumeGroup = groupFor(scratch, disks);
  const pool = await withThinPool(scratch);
  const { id } = await pool.create(volumeSpec('a', { sizeBytes: 64n * mebibyte }));
  await using _inUse = await mounted(pool, id, scratch);
  const metadata = `${volumeGroup.replaceAll('-', '--')}-holdfast--thin_tmeta`;
  const steps = channel('holdfast:step');
  const onStep = (name: unknown) => {
    if (name === 'instant/take') execFileSync('dmsetup', ['suspend', metadata]);
  };
  steps.subscribe(onStep);
  try {
    const snapshot = { id: snapshotIdFor('node', 'late'), name: 'late', sourceId: id, parameters: {} };
    const taking = assert.rejects(pool.takeSnapshots([snapshot]), /given up: cloning took longer than 10 s/);
    await eventually(() => assert.equal(suspended().length, 2), patienceMs);
    await eventually(() => assert.deepEqual(suspended(), [metadata]), patienceMs);
    execFileSync('dmsetup', ['resume', metadata]);
    await taking;
  } finally {
    steps.unsubscribe(onStep);
    execFileSync('dmsetup', ['resume', metadata]);
  }
  assert.deepEqual(await pool.listSnapshots(undefined, undefined), []);
  await pool.close();
});

test('T04: a device that a killed driver left suspended goes on at the next start', async () => {
  using scratch = new Scratch('suspended');
  const pool = await withThinPool(scratch);
  const { id } = await pool.create(volumeSpec('a', { sizeBytes: 64n * mebibyte }));
  await using inUse = await mounted(pool, id, scratch);
  await pool.close();
  const [attachment] = execFileSync('dmsetup', ['ls'], { encoding: 'utf8' }).match(/^\S+-vol--\S+/m) ?? [];
  execFileSync('dmsetup', ['suspend', '--nolockfs', attachment ?? '']);
  assert.deepEqual(suspended(), [attachment]);
  const settings = { ...testSettings(scratch), labels: {}, sickAfterMs: 20_000, keyFile: undefined };
  const own = { volumeGroup: groupFor(scratch, disks), devices: [], wipe: 'discard' } as const;
  const { contents } = await lookAtLvmPool({ ...settings, own }, { ...settings, wanted: 'records' });
  assert.match(contents?.findings.find(({ check }) => check === 'devices')?.detail ?? '', /reads and writes wait/);
  const again = await withThinPool(scratch);
  assert.deepEqual(suspended(), []);
  writeFileSync(`${inUse.path}/file`, 'goes on');
  await again.close();
});

test('a start that was cut short is finished, and what is not ours is left alone', async () => {
  using scratch = new Scratch('start');
  const volumeGroup = groupFor(scratch, disks);
  const make = (...words: readonly string[]) =>
    lvm(
      'lvcreate',
      '--yes',
      '--extents',
      '4',
      '--zero',
      'n',
      '--wipesignatures',
      'n',
      '--name',
      'holdfast-thin',
      ...words,
      volumeGroup,
    );
  make();
  await assert.rejects(withThinPool(scratch), /holdfast-thin that is not Holdfast's\. Rename/);
  assert.match(lvm('lvs', '--noheadings', '-o', 'lv_name,lv_size', volumeGroup), /holdfast-thin +16\.00m/);
  lvm('lvremove', '--yes', `${volumeGroup}/holdfast-thin`);
  make('--addtag', 'holdfast.thin');
  const pool = await withThinPool(scratch);
  await pool.create(volumeSpec('a', { content: block }));
  await pool.close();
  await assert.rejects(openTestLvm(scratch, volumeGroup), FailedPrecondition);
});

test('volumes that are not thin are not mixed with others', async () => {
  using scratch = new Scratch('mixed');
  const volumeGroup = groupFor(scratch, disks);
  const pool = await openTestLvm(scratch, volumeGroup);
  await pool.create(volumeSpec('a', { content: block, provisioning: 'thick' }));
  await pool.close();
  await assert.rejects(withThinPool(scratch), /volumes of this pool that are not thin/);
  assert.doesNotMatch(lvm('lvs', '--noheadings', '-o', 'lv_name', volumeGroup), /holdfast-thin/);
});
