import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { beginningBytes, buildTable, decodeGuid, encodeGuid, endBytes, judgeTable, type Piece } from './gpt.ts';
import { dataPlace, type Geometry, labelPlace } from './layout.ts';

const geometries = fc
  .record({
    sectors4k: fc.bigInt({ min: 4096n, max: 1n << 40n }),
    sectorBytes: fc.constantFrom(512, 4096),
  })
  .map(({ sectorBytes, sectors4k }): Geometry => ({ sizeBytes: sectors4k * 4096n, sectorBytes }));

/** The beginning and the end of a disk on which these pieces were written. */
function written({ sizeBytes }: Geometry, pieces: readonly Piece[]): [Buffer, Buffer] {
  const [beginning, end] = [Buffer.alloc(beginningBytes), Buffer.alloc(endBytes)];
  for (const { bytes, offsetBytes } of pieces) {
    if (offsetBytes < BigInt(beginningBytes)) bytes.copy(beginning, Number(offsetBytes));
    else bytes.copy(end, Number(offsetBytes - (sizeBytes - BigInt(endBytes))));
  }
  return [beginning, end];
}

describe('the partition table of a disk', () => {
  test('is ours when it is whole, and says for which disk it was made', () => {
    fc.assert(
      fc.property(geometries, fc.uuid(), (geometry, diskId) => {
        const { backup, primary, protective } = buildTable(geometry, diskId);
        const verdict = judgeTable(geometry, ...written(geometry, [backup, primary, protective]));
        assert.deepEqual(verdict, { kind: 'ours', diskId, sizeBytes: geometry.sizeBytes, isWhole: true });
      }),
    );
  });

  test('the data ends before its second copy, and lies on whole mebibytes', () => {
    fc.assert(
      fc.property(geometries, fc.uuid(), (geometry, diskId) => {
        const { lengthBytes, startBytes } = dataPlace(geometry);
        assert.equal(startBytes, labelPlace.startBytes + labelPlace.lengthBytes);
        assert.equal(lengthBytes % (1n << 20n), 0n);
        assert.ok(startBytes + lengthBytes <= buildTable(geometry, diskId).backup.offsetBytes);
        assert.ok(geometry.sizeBytes - (startBytes + lengthBytes) < 1n << 21n);
      }),
    );
  });

  test('cut short at any sector it is blank, begun, or ours; never foreign, and ours only with its last sector', () => {
    const geometry = { sizeBytes: 64n << 20n, sectorBytes: 512 };
    const { backup, primary, protective } = buildTable(geometry, '01234567-89ab-cdef-0123-456789abcdef');
    const sectors = [backup, primary, protective].flatMap(({ bytes, offsetBytes }) =>
      Array.from({ length: bytes.length / 512 }, (_, index) => ({
        offsetBytes: offsetBytes + BigInt(index * 512),
        bytes: bytes.subarray(index * 512, (index + 1) * 512),
      })),
    );
    // What is not flushed yet, the disk writes in any order.
    const durable = [backup.bytes.length, backup.bytes.length + primary.bytes.length].map((bytes) => bytes / 512);
    fc.assert(
      fc.property(fc.constantFrom(0, ...durable), fc.infiniteStream(fc.boolean()), (whole, chances) => {
        const until = durable.find((each) => each > whole) ?? sectors.length;
        const kept = sectors.filter((_, index) => index < whole || (index < until && chances.next().value === true));
        const { kind } = judgeTable(geometry, ...written(geometry, kept));
        const hasLast = kept.some(({ offsetBytes }) => offsetBytes === 0n);
        assert.ok(hasLast ? kind === 'ours' : kind === 'none' || kind === 'begun', kind);
      }),
    );
  });

  test('with one sector changed it is no longer ours, or has the other copy still', () => {
    const geometry = { sizeBytes: 64n << 20n, sectorBytes: 512 };
    const table = buildTable(geometry, '01234567-89ab-cdef-0123-456789abcdef');
    fc.assert(
      fc.property(fc.nat({ max: beginningBytes - 1 }), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const [beginning, end] = written(geometry, [table.backup, table.primary, table.protective]);
        beginning.writeUInt8(beginning.readUInt8(at) ^ flip, at);
        const verdict = judgeTable(geometry, beginning, end);
        assert.ok(at < 512 ? verdict.kind === 'foreign' : verdict.kind === 'ours' && !verdict.isWhole, verdict.kind);
      }),
    );
  });

  test('with anything else on it that we have not written it is not blank, and not begun', () => {
    const geometry = { sizeBytes: 64n << 20n, sectorBytes: 512 };
    const { backup, primary } = buildTable(geometry, '01234567-89ab-cdef-0123-456789abcdef');
    const starts = fc.constantFrom<readonly Piece[]>([], [backup], [backup, primary]);
    const place = fc.nat({ max: beginningBytes + endBytes - 1 });
    fc.assert(
      fc.property(starts, place, fc.integer({ min: 1, max: 255 }), (pieces, at, flip) => {
        const [beginning, end] = written(geometry, pieces);
        const [bytes, index] = at < beginningBytes ? [beginning, at] : [end, at - beginningBytes];
        bytes.writeUInt8(bytes.readUInt8(index) ^ flip, index);
        const { kind } = judgeTable(geometry, beginning, end);
        assert.equal(kind, 'foreign');
      }),
    );
  });

  test('a disk that became larger keeps its table; one that became smaller is told as such', () => {
    const made = { sizeBytes: 64n << 20n, sectorBytes: 512 };
    const { primary, protective } = buildTable(made, '01234567-89ab-cdef-0123-456789abcdef');
    const [beginning] = written(made, [primary, protective]);
    const blankEnd = Buffer.alloc(endBytes);
    const larger = judgeTable({ ...made, sizeBytes: 96n << 20n }, beginning, blankEnd);
    assert.deepEqual([larger.kind, 'sizeBytes' in larger && larger.sizeBytes], ['ours', made.sizeBytes]);
    assert.equal(judgeTable({ ...made, sizeBytes: 32n << 20n }, beginning, blankEnd).kind, 'cut');
  });

  test('GUIDs keep their text', () => {
    fc.assert(fc.property(fc.uuid(), (guid) => assert.equal(decodeGuid(encodeGuid(guid)), guid)));
  });
});
