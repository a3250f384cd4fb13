import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { DataLoss } from '../../../volume/errors.ts';
import { volumeIdFor } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { crc32 } from './crc32.ts';
import { decodeLabel, encodeLabel, judgeRemnant, type Label, slotBytes, type Use } from './label.ts';
import { labelPlace } from './layout.ts';

const id = volumeIdFor('node', 'pool', 'name');
const record: VolumeRecord = {
  ...{ id, name: 'name', sizeBytes: 1n << 40n, content: { type: 'block' }, accessModes: ['SINGLE_NODE_WRITER'] },
  ...{ provisioning: 'thin', parameters: { a: 'ä' }, blockSizeBytes: 512, createdAt: '2026-11-22T00:00:00.000Z' },
};
const deletion = { deletedAt: '2026-11-22T00:00:00.000Z', purgeAt: '2026-11-23T00:00:00.000Z', poolAgeMs: 5 };
const diskId = '01234567-89ab-4def-8123-456789abcdef';

const uses: Use[] = [
  { state: 'free' },
  { state: 'draft', id, ref: 'r' },
  { state: 'volume', record },
  { state: 'trash', id, ref: 'r', record, deletion },
  { state: 'trash', id, ref: 'r', record: undefined, deletion: undefined },
];
const free: Label = { diskId, pool: 'pool', use: { state: 'free' } };
const labels = fc.constantFrom(...uses).map((use): Label => ({ diskId, pool: 'pool', use }));

function write(bytes: Buffer, label: Label, generation: bigint, sectorBytes = 512): void {
  const { header, text } = encodeLabel(label, generation, sectorBytes);
  text.bytes.copy(bytes, text.offset);
  header.bytes.copy(bytes, header.offset);
}

describe('the label of a disk', () => {
  test('is read as it was written; the one that was written last counts', () => {
    fc.assert(
      fc.property(fc.array(labels, { minLength: 1, maxLength: 5 }), fc.constantFrom(512, 4096), (all, sectorBytes) => {
        const bytes = Buffer.alloc(Number(labelPlace.lengthBytes));
        for (const [index, label] of all.entries()) write(bytes, label, BigInt(index + 1), sectorBytes);
        assert.deepEqual(decodeLabel(bytes, diskId, 'sda'), { label: all.at(-1), generation: BigInt(all.length) });
      }),
    );
  });

  test('a write that was cut short, or tore any byte of its slot, leaves the one before', () => {
    fc.assert(
      fc.property(labels, labels, fc.nat({ max: slotBytes - 1 }), (before, next, cut) => {
        const bytes = Buffer.alloc(Number(labelPlace.lengthBytes));
        write(bytes, free, 6n);
        write(bytes, before, 7n);
        const { header, text } = encodeLabel(next, 8n, 512);
        text.bytes.subarray(0, cut).copy(bytes, text.offset);
        assert.deepEqual(decodeLabel(bytes, diskId, 'sda')?.label, before);
        text.bytes.copy(bytes, text.offset);
        header.bytes.copy(bytes, header.offset);
        assert.deepEqual(decodeLabel(bytes, diskId, 'sda')?.label, next);
        const torn = header.offset + (cut % 512);
        bytes.writeUInt8(bytes.readUInt8(torn) ^ 1, torn);
        // It may have been a volume's by now: only a volume is still one.
        if (before.use.state === 'volume') assert.deepEqual(decodeLabel(bytes, diskId, 'sda')?.label, before);
        else assert.throws(() => decodeLabel(bytes, diskId, 'sda'), DataLoss);
      }),
    );
  });

  test('without a partition table: only one that is free, or was on its way there, may be written over', () => {
    const first = encodeLabel(free, 1n, 512);
    const blank = () => Buffer.alloc(Number(labelPlace.lengthBytes));
    assert.deepEqual(judgeRemnant(blank(), 512, 'sda'), { kind: 'free', generation: 0n });
    const begun = blank();
    first.text.bytes.copy(begun, first.text.offset);
    assert.deepEqual(judgeRemnant(begun, 512, 'sda'), { kind: 'free', generation: 0n });
    first.header.bytes.copy(begun, first.header.offset);
    assert.deepEqual(judgeRemnant(begun, 512, 'sda'), { kind: 'free', generation: 1n });
    for (const use of uses.slice(1)) {
      const bytes = blank();
      write(bytes, free, 1n);
      write(bytes, { diskId, pool: 'pool', use }, 2n);
      assert.deepEqual(judgeRemnant(bytes, 512, 'sda'), { kind: 'used', what: `volume ${id}` });
    }
    fc.assert(
      fc.property(fc.nat({ max: slotBytes * 2 - 1 }), fc.integer({ min: 1, max: 255 }), (at, value) => {
        const bytes = blank();
        bytes.writeUInt8(value, at);
        assert.deepEqual(judgeRemnant(bytes, 512, 'sda'), { kind: 'foreign' });
      }),
    );
  });

  test('one from an earlier life of the disk does not count', () => {
    const bytes = Buffer.alloc(Number(labelPlace.lengthBytes));
    write(
      bytes,
      { diskId: '11111111-89ab-4def-8123-456789abcdef', pool: 'pool', use: { state: 'volume', record } },
      9n,
    );
    assert.equal(decodeLabel(bytes, diskId, 'sda'), undefined);
    write(bytes, free, 10n);
    assert.deepEqual(decodeLabel(bytes, diskId, 'sda')?.label.use, { state: 'free' });
  });

  test('noise is none, and one of a later version is told', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 512, maxLength: 512 }), (noise) => {
        const bytes = Buffer.alloc(Number(labelPlace.lengthBytes));
        bytes.set(noise);
        assert.equal(decodeLabel(bytes, diskId, 'sda'), undefined);
      }),
    );
    const bytes = Buffer.alloc(Number(labelPlace.lengthBytes));
    const later = { diskId, pool: 'pool', use: { state: 'lent' } } as unknown as Label;
    assert.throws(() => {
      write(bytes, later, 1n);
      decodeLabel(bytes, diskId, 'sda');
    }, DataLoss);
  });

  test('the checksum is that of GPT', () => {
    assert.equal(crc32(Buffer.from('123456789')), 0xcbf43926);
  });
});
