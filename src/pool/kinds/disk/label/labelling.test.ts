import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { crc32 } from '../../../../kernel/block/crc32.ts';
import { gptOf, type Piece } from './gpt.ts';
import { type DiskEnds, endsOf, judgeDisk, planOf } from './labelling.ts';
import { type DiskShape, mebibyte } from './layout.ts';

const poolId = '0b7e6a52-2f4f-4c0e-8a3d-9f1c5d2e7a11';
const otherId = '5d0d7c7e-39c8-4f43-9a4f-3a7f2e0a6c55';
const shapes: readonly DiskShape[] = [
  { sizeBytes: 32n * mebibyte, sectorBytes: 512 },
  { sizeBytes: 32n * mebibyte + 512n * 77n, sectorBytes: 512 },
  { sizeBytes: 32n * mebibyte + 4096n * 3n, sectorBytes: 4096 },
];

function identityOf({ sizeBytes }: DiskShape) {
  return { name: 'wwid t10.disk', sizeBytes };
}

function endsIn(disk: Buffer, shape: DiskShape): DiskEnds {
  const { front, tail } = endsOf(shape);
  const part = ({ lengthBytes, offsetBytes }: typeof front) =>
    disk.subarray(Number(offsetBytes), Number(offsetBytes + lengthBytes));
  return { front: part(front), tail: part(tail) };
}

const judge = (disk: Buffer, shape: DiskShape, begunId?: string) =>
  judgeDisk(endsIn(disk, shape), shape, identityOf(shape), begunId);
const labellingOf = (shape: DiskShape) => ({ poolId, disk: identityOf(shape), shape });

/** A disk on which a part of the plan was written, and all before it. */
function written(shape: DiskShape, groups: number): Buffer {
  const disk = Buffer.alloc(Number(shape.sizeBytes));
  for (const { bytes, offsetBytes } of planOf(labellingOf(shape)).slice(0, groups).flat()) {
    bytes.copy(disk, Number(offsetBytes));
  }
  return disk;
}

for (const shape of shapes) {
  describe(`labelling a disk of ${shape.sizeBytes} bytes with sectors of ${shape.sectorBytes}`, () => {
    const groups = planOf(labellingOf(shape)).length;

    test('a blank disk is blank, whatever the marker says; a labelled one is labelled', () => {
      for (const begunId of [undefined, poolId, otherId]) {
        assert.deepEqual(judge(written(shape, 0), shape, begunId), { kind: 'blank' });
        assert.deepEqual(judge(written(shape, groups), shape, begunId), {
          kind: 'labelled',
          poolId,
          isWhole: true,
          diskBytes: shape.sizeBytes,
        });
      }
    });

    test('what was cut short is gone on with by who began it, and by nobody else', () => {
      for (let done = 1; done < groups; done++) {
        assert.deepEqual(judge(written(shape, done), shape, poolId), { kind: 'begun', poolId });
        const others = [undefined, otherId].map((begunId) => judge(written(shape, done), shape, begunId));
        // From the second half on the pool is known, but others never write to it.
        const isTold = done >= 2;
        const expected = isTold
          ? { kind: 'labelled', poolId, isWhole: false, diskBytes: shape.sizeBytes }
          : { kind: 'foreign' };
        for (const verdict of others) assert.deepEqual(verdict, expected);
      }
    });

    test('sectors of the last group may be there or not, in any order', () => {
      const pieces = planOf(labellingOf(shape));
      fc.assert(
        fc.property(fc.nat({ max: groups - 1 }), fc.infiniteStream(fc.boolean()), (done, fates) => {
          const disk = written(shape, done);
          for (const { bytes, offsetBytes } of pieces[done] ?? []) {
            for (let at = 0; at < bytes.length; at += 512) {
              if (fates.next().value === true) bytes.copy(disk, Number(offsetBytes) + at, at, at + 512);
            }
          }
          assert.ok(['begun', 'blank', 'labelled'].includes(judge(disk, shape, poolId).kind));
        }),
        { numRuns: 50 },
      );
    });

    test('one byte of anything else makes it foreign: never blank, never gone on with', () => {
      const { front, tail } = endsOf(shape);
      const anywhere = fc.oneof(
        fc.nat({ max: Number(front.lengthBytes) - 1 }),
        fc.nat({ max: Number(tail.lengthBytes) - 1 }).map((at) => Number(tail.offsetBytes) + at),
      );
      fc.assert(
        fc.property(fc.nat({ max: groups - 1 }), anywhere, fc.integer({ min: 1, max: 255 }), (done, at, byte) => {
          const disk = written(shape, done);
          const whole = written(shape, groups);
          fc.pre(byte !== whole[at]);
          disk.writeUInt8(byte, at);
          const { kind } = judge(disk, shape, poolId);
          assert.ok(['foreign', 'labelled', 'mixed'].includes(kind), kind);
          assert.equal(judge(disk, shape).kind === 'blank', false);
        }),
        { numRuns: 100 },
      );
    });

    test('a half of the table that was lost is no loss; both are', () => {
      const { front, tail } = endsOf(shape);
      const [noFront, noTail] = [written(shape, groups), written(shape, groups)];
      noFront.fill(0xff, 0, Number(mebibyte));
      noTail.fill(0xff, Number(tail.offsetBytes));
      for (const disk of [noFront, noTail]) {
        assert.deepEqual(judge(disk, shape), { kind: 'labelled', poolId, isWhole: false, diskBytes: shape.sizeBytes });
      }
      noTail.fill(0, 0, Number(front.lengthBytes));
      assert.deepEqual(judge(noTail, shape), { kind: 'foreign' });
    });

    test('DK01: a half that is neither ours, nor zeros, nor damaged in one place makes it nobody knows whose', () => {
      const { tail } = endsOf(shape);
      const whole = written(shape, groups);
      const { sectorBytes, sizeBytes } = shape;
      const foreign = gptOf(otherId, shape);
      const spoilt = (spoil: (disk: Buffer) => void) => {
        const disk = Buffer.from(whole);
        spoil(disk);
        return judge(disk, shape);
      };
      const put = (disk: Buffer, { bytes, offsetBytes }: Piece) => void bytes.copy(disk, Number(offsetBytes));
      const labelled = { kind: 'labelled', poolId, isWhole: false, diskBytes: sizeBytes };
      // A foreign table, whole, before the second half of ours: as an image leaves it that is written to the disk.
      const table = (disk: Buffer) => {
        put(disk, foreign.mbr);
        put(disk, foreign.primaryHeader);
        put(disk, foreign.primaryEntries);
      };
      assert.deepEqual(spoilt(table), { kind: 'mixed' });
      assert.deepEqual(
        spoilt((disk) => put(disk, foreign.primaryHeader)),
        { kind: 'mixed' },
      );
      const partitions = (disk: Buffer) => {
        disk.fill(0, 0, 512);
        disk[446 + 4] = 0x83;
        disk.writeUInt16LE(0xaa55, 510);
      };
      assert.deepEqual(spoilt(partitions), { kind: 'mixed' });
      const noise = (at: number, length: number) => (disk: Buffer) => void disk.fill(0x5a, at, at + length);
      assert.deepEqual(spoilt(noise(0, Number(mebibyte))), { kind: 'mixed' });
      assert.deepEqual(spoilt(noise(Number(tail.offsetBytes), Number(tail.lengthBytes))), { kind: 'mixed' });
      // Torn, or not to be read.
      assert.deepEqual(spoilt(noise(sectorBytes, 512)), labelled);
      assert.deepEqual(spoilt(noise(Number(sizeBytes) - sectorBytes, sectorBytes)), labelled);
      assert.deepEqual(
        spoilt((disk) => disk.fill(0xff, 0, 8192)),
        labelled,
      );
    });

    test('H6: a table that a program has written anew is ours while it has our partition, and no other', () => {
      const whole = written(shape, groups);
      const rewritten = (edit: (entries: Buffer, header: Buffer) => void, halves: 'both' | 'front') => {
        const disk = Buffer.from(whole);
        const { backupEntries, backupHeader, primaryEntries, primaryHeader } = gptOf(poolId, shape);
        const parts = [{ entries: primaryEntries, header: primaryHeader }];
        if (halves === 'both') parts.push({ entries: backupEntries, header: backupHeader });
        for (const { entries, header } of parts) {
          const [entryBytes, headerBytes] = [Buffer.from(entries.bytes), Buffer.from(header.bytes)];
          edit(entryBytes, headerBytes);
          headerBytes.writeUInt32LE(crc32(entryBytes), 88);
          headerBytes.writeUInt32LE(0, 16);
          headerBytes.writeUInt32LE(crc32(headerBytes.subarray(0, 92)), 16);
          entryBytes.copy(disk, Number(entries.offsetBytes));
          headerBytes.copy(disk, Number(header.offsetBytes));
        }
        return judge(disk, shape);
      };
      const edits: readonly ((entries: Buffer, header: Buffer) => void)[] = [
        // sgdisk --change-name, --attributes; parted name, set; a last sector that was moved; and the same of the header.
        (entries) => void entries.write('data of the database', 56, 'utf16le'),
        (entries) => void entries.writeBigUInt64LE(1n << 60n, 48),
        (entries) => void entries.writeBigUInt64LE(entries.readBigUInt64LE(40) - 8n, 40),
        (_, header) => void header.writeBigUInt64LE(header.readBigUInt64LE(48) - 8n, 48),
      ];
      for (const edit of edits) {
        for (const halves of ['both', 'front'] as const) {
          const verdict = rewritten(edit, halves);
          assert.deepEqual(verdict, { kind: 'labelled', poolId, isWhole: true, diskBytes: shape.sizeBytes });
        }
      }
      const second = (entries: Buffer) => void entries.copy(entries, 128, 0, 128);
      assert.deepEqual(rewritten(second, 'both'), { kind: 'mixed' });
    });

    test('a disk that has grown is the same one; one that was cut is told', () => {
      const whole = written(shape, groups);
      const grown = { ...shape, sizeBytes: shape.sizeBytes + 8n * mebibyte };
      const larger = Buffer.concat([whole, Buffer.alloc(Number(8n * mebibyte))]);
      assert.deepEqual(judge(larger, grown), { kind: 'labelled', poolId, isWhole: true, diskBytes: shape.sizeBytes });
      const smaller = { ...shape, sizeBytes: shape.sizeBytes - 4n * mebibyte };
      const cut = whole.subarray(0, Number(smaller.sizeBytes));
      assert.deepEqual(judge(cut, smaller), { kind: 'cut', diskBytes: shape.sizeBytes });
    });
  });
}
