import assert from 'node:assert/strict';
import { closeSync, ftruncateSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { probeContent } from '../../../../kernel/block/blkid.ts';
import { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { gptOf, readGpt } from './gpt.ts';
import { entriesBytes, layoutOf, mebibyte, minimumDiskBytes } from './layout.ts';

const poolId = '0b7e6a52-2f4f-4c0e-8a3d-9f1c5d2e7a11';
const shapes = fc.record({
  sizeBytes: fc.bigInt({ min: minimumDiskBytes / 4096n, max: 1n << 36n }).map((blocks) => blocks * 4096n),
  sectorBytes: fc.constantFrom(512, 4096),
});

describe('the table of a disk', () => {
  test('is read again from either half, whatever the disk is like', () => {
    fc.assert(
      fc.property(shapes, (shape) => {
        const { backupEntries, backupHeader, primaryEntries, primaryHeader } = gptOf(poolId, shape);
        const found = { poolId, diskBytes: shape.sizeBytes };
        assert.deepEqual(readGpt(primaryHeader.bytes, primaryEntries.bytes), found);
        assert.deepEqual(readGpt(backupHeader.bytes, backupEntries.bytes), found);
      }),
    );
  });

  test('is one to libblkid, which checks it, and there is nothing else on the disk', async () => {
    const directory = mkdtempSync(`${tmpdir()}/holdfast-gpt-`);
    try {
      const path = `${directory}/disk`;
      const shape = { sizeBytes: 64n * mebibyte + 77n * 512n, sectorBytes: 512 };
      const image = openSync(path, 'w');
      ftruncateSync(image, Number(shape.sizeBytes));
      for (const { bytes, offsetBytes } of Object.values(gptOf(poolId, shape))) {
        writeSync(image, bytes, 0, bytes.length, Number(offsetBytes));
      }
      closeSync(image);
      assert.deepEqual(await probeContent(new DiskQueue('test', 1), path), { kind: 'partitions', type: 'gpt' });
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  test('with one bit changed is none of ours', () => {
    const { primaryEntries, primaryHeader } = gptOf(poolId, { sizeBytes: 64n * mebibyte, sectorBytes: 512 });
    const bits = fc.nat({ max: 92 * 8 - 1 });
    fc.assert(
      fc.property(bits, (bit) => {
        const header = Buffer.from(primaryHeader.bytes);
        header.writeUInt8(header.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
        assert.equal(readGpt(header, primaryEntries.bytes), undefined);
      }),
      { numRuns: 1000 },
    );
    const entries = Buffer.from(primaryEntries.bytes);
    entries.writeUInt8(1, 5000);
    assert.equal(readGpt(primaryHeader.bytes, entries), undefined);
  });

  test('says where things lie: the parts follow one another, all within the partition, and nothing overlaps the table', () => {
    fc.assert(
      fc.property(shapes, (shape) => {
        const { data, label, partition, tail } = layoutOf(shape);
        assert.equal(label.offsetBytes, partition.offsetBytes);
        assert.equal(data.offsetBytes, label.offsetBytes + label.lengthBytes);
        assert.equal(tail.offsetBytes, data.offsetBytes + data.lengthBytes);
        assert.equal(tail.offsetBytes + tail.lengthBytes, shape.sizeBytes);
        assert.equal(partition.offsetBytes + partition.lengthBytes, tail.offsetBytes + mebibyte);
        assert.ok(data.lengthBytes > 0n && data.lengthBytes % mebibyte === 0n && data.offsetBytes % mebibyte === 0n);
        assert.ok(tail.lengthBytes <= 3n * mebibyte + 1n);
        const { backupEntries, primaryEntries } = gptOf(poolId, shape);
        assert.ok(primaryEntries.offsetBytes + entriesBytes <= partition.offsetBytes);
        assert.ok(backupEntries.offsetBytes >= partition.offsetBytes + partition.lengthBytes);
      }),
    );
  });
});
