/**
 * Runs in the virtual machine: changed blocks of snapshots in a thin pool, by real device-mapper.
 * node changes-in-guest.ts DISK…
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { extname } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { ByteRange } from '../../../src/kernel/file/sparse.ts';
import { attachDevice } from '../../../src/pool/attached-device.ts';
import { mappedName } from '../../../src/pool/kinds/lvm/names.ts';
import type { Pool } from '../../../src/pool/pool.ts';
import { NotFound, Unavailable } from '../../../src/volume/errors.ts';
import type { SnapshotId } from '../../../src/volume/id.ts';
import { metadataStepNames } from '../../../src/volume/step.ts';
import { eventually } from '../../support/eventually.ts';
import { volumeSpec } from '../../support/image-pool.ts';
import { groupFor, guestArguments, lvm, openTestLvm, testThinPool } from '../../support/lvm-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { openLvmWithLayer } from '../luks/encrypted-pool.ts';
import { changedRanges, thinOperations } from './changes-operation.ts';
import { idOf, snapshotOf } from './operations.ts';

const { disks } = guestArguments();
const thinPool = testThinPool;
const mebibyte = 1 << 20;
const chunkBytes = 65_536;
const patienceMs = 600_000;
const block = { type: 'block' } as const;

async function makeBlock(pool: Pool, name: string, sizeBytes: bigint, encryption?: 'luks2'): Promise<string> {
  await pool.create(volumeSpec(name, { content: block, sizeBytes, encryption }));
  return attach(pool, name);
}

async function attach(pool: Pool, name: string): Promise<string> {
  const attachment = await attachDevice(pool, idOf(name), { persistent: true });
  await attachment.release();
  return attachment.devicePath;
}

async function snapshot(pool: Pool, name: string, volume: string): Promise<SnapshotId> {
  const id = snapshotOf(name);
  await pool.takeSnapshots([{ id, name, sourceId: idOf(volume), parameters: {} }]);
  return id;
}

function write(devicePath: string, offsetBytes: number, lengthBytes: number, byte: number): void {
  const file = openSync(devicePath, 'r+');
  writeSync(file, Buffer.alloc(lengthBytes, byte), 0, lengthBytes, offsetBytes);
  fsyncSync(file);
  closeSync(file);
}

/** Numbers that are the same in each run. */
function* numbers(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    yield state >>> 8;
  }
}

/** All of a snapshot, and by what the thin pool knows it. */
function look(volumeGroup: string, id: SnapshotId): { readonly bytes: Buffer; readonly thinId: string } {
  const rows = lvm('lvs', '--noheadings', '-o', 'lv_name,thin_id', volumeGroup).trim().split('\n');
  const [lvName = '', thinId = ''] =
    rows.map((row) => row.trim().split(/\s+/)).find(([name]) => name?.startsWith(id)) ?? [];
  lvm('lvchange', '--yes', '--activate', 'y', '--ignoreactivationskip', `${volumeGroup}/${lvName}`);
  const bytes = readFileSync(`/dev/mapper/${mappedName(volumeGroup, lvName)}`);
  lvm('lvchange', '--yes', '--activate', 'n', `${volumeGroup}/${lvName}`);
  return { bytes, thinId };
}

const poolDevice = (volumeGroup: string) => `${mappedName(volumeGroup, 'holdfast-thin')}-tpool`;
/** Where the metadata snapshot of somebody begins. */
function heldBlock(volumeGroup: string): string {
  const text = execFileSync('dmsetup', ['status', '--noflush', poolDevice(volumeGroup)], { encoding: 'utf8' });
  return text.trim().split(' ')[6] ?? '';
}
const tell = (volumeGroup: string, message: string) =>
  execFileSync('dmsetup', ['message', poolDevice(volumeGroup), '0', message]);

/** The chunks in ranges, which begin and end with chunks but for the end of the volume. */
function chunksIn(ranges: readonly ByteRange[]): number[] {
  return ranges.flatMap(({ lengthBytes, offsetBytes }) => {
    assert.equal(Number(offsetBytes) % chunkBytes, 0);
    const count = Math.ceil(Number(lengthBytes) / chunkBytes);
    return Array.from({ length: count }, (_, index) => Number(offsetBytes) / chunkBytes + index);
  });
}

function differingChunks(base: Buffer, target: Buffer): number[] {
  const whole = Buffer.alloc(target.length);
  base.copy(whole);
  const count = Math.ceil(target.length / chunkBytes);
  const chunkAt = (bytes: Buffer, index: number) => bytes.subarray(index * chunkBytes, (index + 1) * chunkBytes);
  return Array.from({ length: count }, (_, index) => index).filter(
    (index) => !chunkAt(whole, index).equals(chunkAt(target, index)),
  );
}

/** What thin_delta of thin-provisioning-tools says of the same two, by a metadata snapshot of its own. */
function toldByThinDelta(volumeGroup: string, base: string, target: string): number[] {
  const metadata = `/dev/mapper/${mappedName(volumeGroup, 'holdfast-thin_tmeta')}`;
  const xml = execFileSync('thin_delta', ['-m', '--snap1', base, '--snap2', target, metadata], { encoding: 'utf8' });
  const rows = xml.matchAll(/<(different|left_only|right_only) begin="([0-9]+)" length="([0-9]+)"/g);
  return Array.from(rows).flatMap(([, , begin, length]) =>
    Array.from({ length: Number(length) }, (_, index) => Number(begin) + index),
  );
}

test('SM14: all that differs is told, byte for byte, and what thin_delta tells; nobody else is disturbed', async () => {
  using scratch = new Scratch('changes');
  const volumeGroup = groupFor(scratch, disks);
  const pool = await openTestLvm(scratch, volumeGroup, { thinPool });
  const sizeMiB = 48;
  const path = await makeBlock(pool, 'a', BigInt(sizeMiB * mebibyte));
  const random = numbers(7);
  const writeSome = (count: number) => {
    for (let index = 0; index < count; index++) {
      const offset = (random.next().value % (sizeMiB * 256)) * 4096;
      const length = 4096 * (1 + (random.next().value % 24));
      write(path, offset, Math.min(length, sizeMiB * mebibyte - offset), 1 + (random.next().value % 255));
    }
  };
  const ids = [await snapshot(pool, 'empty', 'a')];
  for (const [index, count] of [60, 20, 0, 5].entries()) {
    writeSome(count);
    if (index === 3) await pool.grow(idOf('a'), BigInt((sizeMiB + 8) * mebibyte));
    if (index === 3) write(path, (sizeMiB + 3) * mebibyte, 4096, 77);
    ids.push(await snapshot(pool, `s${index}`, 'a'));
  }
  const told = new Map<string, number[]>();
  for (const [index, target] of ids.entries()) {
    told.set(`- ${index}`, chunksIn(await changedRanges(pool, undefined, target)));
    for (let base = 0; base < index; base++) {
      told.set(`${base} ${index}`, chunksIn(await changedRanges(pool, ids[base], target)));
    }
  }
  // From the middle on: exactly the rest.
  const [third, fifth] = [ids[1], ids[4]];
  assert.ok(third && fifth);
  const all = await changedRanges(pool, third, fifth);
  for (const [index, { lengthBytes, offsetBytes }] of all.entries()) {
    if (index % 7 === 0) {
      assert.deepEqual(await changedRanges(pool, third, fifth, offsetBytes + lengthBytes), all.slice(index + 1));
    }
  }
  await eventually(() => assert.equal(heldBlock(volumeGroup), '-'), patienceMs);
  const seen = ids.map((id) => look(volumeGroup, id));
  // Somebody else's from here on.
  tell(volumeGroup, 'reserve_metadata_snap');
  const theirs = heldBlock(volumeGroup);
  await assert.rejects(changedRanges(pool, undefined, fifth), (error) => {
    assert.ok(error instanceof Unavailable && error.message.length <= 200, `${error}`);
    return /another program has its thin pool's metadata snapshot/.test(error.message);
  });
  for (const [pair, chunks] of told) {
    const [base, target] = pair.split(' ').map((word) => seen[Number(word)]);
    assert.ok(target);
    const differing = differingChunks(base?.bytes ?? Buffer.alloc(0), target.bytes);
    assert.deepEqual(
      differing.filter((chunk) => !chunks.includes(chunk)),
      [],
      `${pair}: what differs is not told`,
    );
    if (base !== undefined) assert.deepEqual(chunks, toldByThinDelta(volumeGroup, base.thinId, target.thinId), pair);
  }
  assert.ok((told.get('1 4') ?? []).includes(((sizeMiB + 3) * mebibyte) / chunkBytes));
  assert.deepEqual(told.get('2 3'), [], 'nothing was written');
  assert.deepEqual(told.get('- 0'), []);
  await pool.close();
  const again = await openTestLvm(scratch, volumeGroup, { thinPool });
  assert.equal(heldBlock(volumeGroup), theirs, "somebody else's was released");
  tell(volumeGroup, 'release_metadata_snap');
  assert.ok((await changedRanges(again, undefined, fifth)).length > 0);
  await again.close();
});

test('SM13: one that stops in the middle holds nothing, and goes on later, or is told that its snapshot is gone', async () => {
  using scratch = new Scratch('slow');
  const volumeGroup = groupFor(scratch, disks);
  const pool = await openTestLvm(scratch, volumeGroup, { thinPool });
  const path = await makeBlock(pool, 'a', 64n << 20n);
  // Every other chunk, in more leaves than one.
  for (let at = 0; at < 64 * mebibyte; at += 2 * chunkBytes) write(path, at, 4096, 1);
  const id = await snapshot(pool, 'a', 'a');
  const stream = () => {
    const request = { base: undefined, target: id, fromBytes: 0n, signal: new AbortController().signal };
    return pool.changedRanges(request)[Symbol.asyncIterator]();
  };
  const [slow, left] = [stream(), stream()];
  const first = await slow.next();
  await left.next();
  const all = await changedRanges(pool, undefined, id);
  assert.equal(all.length, 512);
  await eventually(() => assert.equal(heldBlock(volumeGroup), '-'), patienceMs);
  // Newer ones, with the next numbers that the thin pool gives out.
  await makeBlock(pool, 'b', 32n << 20n);
  const rest: ByteRange[] = [];
  for (let next = await slow.next(); next.done !== true; next = await slow.next()) rest.push(next.value);
  assert.deepEqual([first.value, ...rest], all);
  await pool.removeSnapshot(id);
  await makeBlock(pool, 'c', 32n << 20n);
  await assert.rejects(async () => {
    for (let next = await left.next(); next.done !== true; ) next = await left.next();
  }, NotFound);
  await eventually(() => assert.equal(heldBlock(volumeGroup), '-'), patienceMs);
  for (const name of ['a', 'b', 'c']) await pool.detach((await pool.attached(idOf(name)))[0] ?? assert.fail());
  await pool.close();
});

test('of an encrypted volume the offsets are those of its user', async () => {
  using scratch = new Scratch('encrypted');
  execFileSync('modprobe', ['dm-crypt']);
  const volumeGroup = groupFor(scratch, disks);
  const pool = await openLvmWithLayer(scratch, volumeGroup, { thinPool });
  const path = await makeBlock(pool, 'a', 64n << 20n, 'luks2');
  const base = await snapshot(pool, 'base', 'a');
  write(path, 32 * mebibyte, 4096, 1);
  write(path, 64 * mebibyte - 4096, 4096, 1);
  const target = await snapshot(pool, 'target', 'a');
  assert.deepEqual(await changedRanges(pool, base, target), [
    { offsetBytes: 32n << 20n, lengthBytes: 65_536n },
    { offsetBytes: (64n << 20n) - 65_536n, lengthBytes: 65_536n },
  ]);
  await pool.detach((await pool.attached(idOf('a')))[0] ?? assert.fail());
  await pool.close();
});

test('T03: a driver that is killed around each step leaves nothing that the next start does not release', async () => {
  using scratch = new Scratch('killed');
  const volumeGroup = groupFor(scratch, disks);
  const dataDirectory = scratch.join('data');
  const driver = fileURLToPath(new URL(`killed-driver${extname(import.meta.url)}`, import.meta.url));
  const operation = thinOperations['changed blocks'] ?? assert.fail();
  const first = await openTestLvm(scratch, volumeGroup, { thinPool, dataDirectory });
  await operation.prepare(first, 'v');
  await first.close();
  for (const step of metadataStepNames) {
    for (const when of ['before', 'after'] as const) {
      const words = [driver, 'thin', volumeGroup, dataDirectory, 'changed blocks', 'v', when, step];
      const { signal, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8' });
      assert.equal(signal, 'SIGKILL', `${when} ${step}: ${stderr}`);
      const isHeld = heldBlock(volumeGroup) !== '-';
      const expected = [
        'after metadata/reserve',
        'before metadata/record',
        'after metadata/record',
        'before metadata/release',
      ];
      assert.equal(isHeld, expected.includes(`${when} ${step}`), `${when} ${step}`);
      // As after a boot: LVM checks the metadata then.
      if (step === 'metadata/release') lvm('vgchange', '--activate', 'n', volumeGroup);
      const pool = await openTestLvm(scratch, volumeGroup, { thinPool, dataDirectory });
      assert.equal(heldBlock(volumeGroup), '-', `${when} ${step}`);
      if (isHeld) await operation.check(pool, 'v');
      await pool.close();
    }
  }
});
