import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { describe, test } from 'node:test';
import { openReadOnly } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { endOfExtents, readExtents } from '../../src/kernel/file/fiemap.ts';
import { ReflinkClone } from '../../src/pool/kinds/image/reflink-clone.ts';
import { writeInPieces } from '../support/many-pieces.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('test', 4);
const pieces = 2500;

/** An image in many pieces, on a filesystem that shares blocks. */
function imageOn(scratch: Scratch, fsType: string): string {
  const location = scratch.join('location');
  const disk = scratch.join('disk');
  mkdirSync(location);
  writeFileSync(disk, '');
  truncateSync(disk, 1 << 30);
  execFileSync(`mkfs.${fsType}`, ['-q', '-K', disk]);
  execFileSync('mount', ['-o', 'loop', disk, location]);
  const image = scratch.join('location/image');
  writeFileSync(image, '');
  truncateSync(image, 128 << 20);
  writeInPieces(image, pieces);
  return image;
}

/** Where on the disk each extent lies. */
async function placesOf(path: string): Promise<unknown[]> {
  await using file = await openReadOnly(queue, path);
  const places: unknown[] = [];
  for (let fromBytes = 0n; fromBytes < 128n << 20n; ) {
    const { extents, untilBytes } = await readExtents(queue, file, fromBytes, 128n << 20n);
    places.push(...extents.map(({ offsetBytes, physicalBytes }) => ({ offsetBytes, physicalBytes })));
    fromBytes = untilBytes;
  }
  return places;
}

/** As a filesystem in the image would: here and there, in new places and old ones, and with holes. */
function change(image: string): void {
  const file = openSync(image, 'r+');
  for (let count = 0; count < 300; count++) {
    writeSync(file, randomBytes(4096), 0, 4096, Math.floor(Math.random() * (32 << 10)) * 4096);
  }
  fsyncSync(file);
  closeSync(file);
  for (const offset of [3, 17, 30]) {
    execFileSync('fallocate', ['--punch-hole', '--offset', `${offset}M`, '--length', '1M', image]);
  }
}

describe('a clone of an image in many pieces', () => {
  for (const fsType of ['xfs', 'btrfs']) {
    test(`${fsType}: shares all blocks ahead, and at the end has what has been written since`, async () => {
      using scratch = new Scratch('clone');
      const image = imageOn(scratch, fsType);
      for (const isAtRest of [true, false]) {
        const path = scratch.join(`location/clone-${isAtRest}`);
        const clone = new ReflinkClone(queue, image, path);
        await clone.goAhead();
        assert.deepEqual(await placesOf(path), await placesOf(image));
        change(image);
        await clone.goAhead();
        assert.deepEqual(await placesOf(path), await placesOf(image));
        change(image);
        await clone.complete({ isAtRest });
        assert.ok(readFileSync(path).equals(readFileSync(image)));
      }
    });
  }

  test('nothing is done ahead of an image in few pieces', async () => {
    using scratch = new Scratch('clone');
    const image = imageOn(scratch, 'xfs');
    truncateSync(image, 4 << 20);
    const path = scratch.join('location/clone');
    const clone = new ReflinkClone(queue, image, path);
    await clone.goAhead();
    assert.throws(() => readFileSync(path), /ENOENT/);
    await clone.complete({ isAtRest: true });
    assert.ok(readFileSync(path).equals(readFileSync(image)));
  });

  test('it stops between two pieces when nobody wants it any more', async () => {
    using scratch = new Scratch('clone');
    const image = imageOn(scratch, 'xfs');
    const path = scratch.join('location/clone');
    const clone = new ReflinkClone(queue, image, path);
    await clone.goAhead();
    writeInPieces(image, pieces);
    const before = await placesOf(path);
    const late = new AbortController();
    late.abort(new Error('too late'));
    await assert.rejects(clone.complete({ isAtRest: true, signal: late.signal }), /too late/);
    await assert.rejects(clone.goAhead(late.signal), /too late/);
    assert.deepEqual(await placesOf(path), before);
  });

  test('where so many extents end', async () => {
    using scratch = new Scratch('clone');
    await using file = await openReadOnly(queue, imageOn(scratch, 'xfs'));
    assert.equal(await endOfExtents(queue, file, 0n, 1000), 999n * 8192n + 4096n);
    assert.equal(await endOfExtents(queue, file, 4096n, 1000), 1000n * 8192n + 4096n);
    assert.equal(await endOfExtents(queue, file, 0n, pieces + 1), undefined);
  });
});
