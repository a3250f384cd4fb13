import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { openReadOnly } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { findScatteredData, placesOf } from '../../src/pool/location/disk/scattered-data.ts';
import { attachDisk, sparseFile } from '../support/disk.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('disk', 4);
const mebibyte = 1 << 20;

async function find(devicePath: string): Promise<bigint | undefined> {
  await using device = await openReadOnly(queue, devicePath);
  return await findScatteredData(queue, device, 0n);
}

function zero(image: string, offset: number, length: number): void {
  execFileSync('fallocate', ['--punch-hole', '--offset', `${offset}`, '--length', `${length}`, image]);
}

test('a blank disk has no data anywhere', async () => {
  using scratch = new Scratch('scattered');
  assert.equal(await find(attachDisk(sparseFile(scratch.join('image'), 300))), undefined);
});

for (const [make, sizeMiB] of [
  [['mkfs.ext4', '-q', '-F', '-b', '4096'], 1500],
  [['mkfs.ext4', '-q', '-F', '-b', '1024'], 300],
  [['mkfs.ext2', '-q', '-F', '-b', '2048'], 500],
  [['mkfs.xfs', '-q', '-f'], 1500],
  [['mkfs.btrfs', '-q', '-f'], 1500],
] as const) {
  test(`a filesystem without its beginning and its end is found: ${make.join(' ')}`, async () => {
    using scratch = new Scratch('scattered');
    const image = sparseFile(scratch.join('image'), sizeMiB);
    const [program, ...words] = make;
    execFileSync(program, [...words, image]);
    zero(image, 0, 17 * mebibyte);
    zero(image, (sizeMiB - 1) * mebibyte, mebibyte);
    assert.notEqual(await find(attachDisk(image)), undefined);
  });
}

test('places lie on the disk, behind what is left out, and the front is looked at wholly', () => {
  const sizeBytes = 10n << 40n;
  const places = placesOf(sizeBytes, 0n);
  const covers = (at: bigint) =>
    places.some(({ lengthBytes, offsetBytes }) => offsetBytes <= at && at < offsetBytes + BigInt(lengthBytes));
  const wanted = [0n, 17n, 64n, 128n, 129n, 256n << 10n, 1n << 20n, 2n << 20n, 3n << 20n, (10n << 20n) - 1n];
  for (const at of wanted.map((mib) => mib << 20n)) assert.ok(at === 17n << 20n ? !covers(at) : covers(at), `${at}`);
  for (let at = 0n; at < 17n << 20n; at += 4096n) assert.ok(covers(at));
  const fromBytes = (16n << 20n) + 4096n;
  const behind = placesOf(64n << 20n, fromBytes);
  assert.ok(behind.every(({ offsetBytes }) => offsetBytes >= fromBytes && offsetBytes < 64n << 20n));
  assert.ok(behind.some(({ offsetBytes }) => offsetBytes === fromBytes));
});
