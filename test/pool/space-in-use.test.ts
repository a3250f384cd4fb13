import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { attachDevice } from '../../src/pool/attached-device.ts';
import type { SpaceSource } from '../../src/pool/backend.ts';
import { RecordIndex } from '../../src/pool/indexes/record-index.ts';
import { SnapshotIndex } from '../../src/pool/indexes/snapshot-index.ts';
import { SpaceLedger } from '../../src/pool/space/space-ledger.ts';
import { ResourceExhausted } from '../../src/volume/errors.ts';
import { type VolumeId, volumeIdFor } from '../../src/volume/id.ts';
import type { VolumeRecord } from '../../src/volume/record.ts';
import { openTestPool, volumeSpec } from '../support/image-pool.ts';
import { Scratch } from '../support/scratch.ts';

const mebibyte = 1n << 20n;

/** A filesystem with volumes in use, as the ledger sees it. The test writes and discards. */
class Filesystem {
  readonly ids: readonly VolumeId[];
  readonly looks: string[] = [];
  readonly allocated = new Map<string, bigint>();
  readonly ledger: SpaceLedger;
  freeBytes: bigint;

  constructor({ count, sizeBytes, freeBytes }: { count: number; sizeBytes: bigint; freeBytes: bigint }) {
    this.freeBytes = freeBytes;
    this.ids = Array.from({ length: count }, (_, index) => volumeIdFor('node', 'test', `${index}`));
    const records = this.ids.map((id): VolumeRecord => {
      const mode = 'SINGLE_NODE_WRITER';
      return {
        ...{ id, name: id, sizeBytes, content: { type: 'block' }, accessModes: [mode], provisioning: 'thin' },
        ...{ parameters: {}, blockSizeBytes: 4096, createdAt: new Date(0).toISOString() },
      };
    });
    const source: SpaceSource = {
      ...{ sharesBlocks: false, reservedBytes: 0n, isForVolumesAlone: true },
      storage: async () => ({
        ...{ filesystemBytes: 1n << 40n, freeBytes: this.freeBytes, takenBytes: 0n },
        ...{ isCountedLate: false, isOutOfInodes: false },
      }),
      idInTrash: () => undefined,
      allocatedBytes: async (data) => {
        this.looks.push(data);
        return this.allocated.get(data) ?? 0n;
      },
    };
    const trash = { entries: () => [], expendable: async () => [], of: () => [], going: [] };
    const ended = async () => undefined;
    this.ledger = new SpaceLedger({
      ...{ poolName: 'test', reserveBytes: 0n, overcommit: 1, source },
      trash: { ...trash, purgeEarly: ended, drained: ended, oneGone: ended },
      index: new RecordIndex<VolumeId, VolumeRecord>('volume', { records, damaged: [] }),
      snapshotIndex: new SnapshotIndex({ records: [], damaged: [] }, { records: [], damaged: [] }),
      counts: async () => new Map(this.ids.map((id) => [id, 1])),
    });
  }

  /** A user writes to a volume; a negative number: discards. */
  write(id: VolumeId, bytes: bigint): void {
    this.allocated.set(id, (this.allocated.get(id) ?? 0n) + bytes);
    this.freeBytes -= bytes;
  }
}

describe('a request for space while volumes are in use', () => {
  test('does not look at each of them if the last look has left enough', async () => {
    const filesystem = new Filesystem({ count: 500, sizeBytes: mebibyte, freeBytes: 1000n * mebibyte });
    using _first = await filesystem.ledger.hold({ newBytes: mebibyte });
    assert.ok(filesystem.looks.length >= 500);
    const before = filesystem.looks.length;
    using _second = await filesystem.ledger.hold({ newBytes: mebibyte });
    assert.equal(filesystem.looks.length, before);
  });

  test('and a question for it look at all of them once in a second', async () => {
    const filesystem = new Filesystem({ count: 500, sizeBytes: mebibyte, freeBytes: 1000n * mebibyte });
    const { availableBytes } = await filesystem.ledger.measure();
    const before = filesystem.looks.length;
    assert.ok(before >= 500);
    assert.equal((await filesystem.ledger.measure()).availableBytes, availableBytes);
    using _held = await filesystem.ledger.hold({ newBytes: mebibyte });
    assert.equal((await filesystem.ledger.measure()).availableBytes, availableBytes - mebibyte);
    assert.equal(filesystem.looks.length, before);
  });

  test('gets no more than there is, if a discard is seen in the free space alone', async () => {
    const filesystem = new Filesystem({ count: 1, sizeBytes: 600n * mebibyte, freeBytes: 1000n * mebibyte });
    const [id] = filesystem.ids;
    assert.ok(id !== undefined);
    filesystem.write(id, 600n * mebibyte);
    // 400 MiB are free, and the volume has all that it can claim.
    using _first = await filesystem.ledger.hold({ newBytes: 100n * mebibyte });
    filesystem.write(id, -600n * mebibyte);
    await assert.rejects(filesystem.ledger.hold({ newBytes: 301n * mebibyte }), ResourceExhausted);
    using _second = await filesystem.ledger.hold({ newBytes: 200n * mebibyte });
    await assert.rejects(filesystem.ledger.hold({ newBytes: 101n * mebibyte }), ResourceExhausted);
    using _third = await filesystem.ledger.hold({ newBytes: 100n * mebibyte });
    await assert.rejects(filesystem.ledger.hold({ newBytes: 1n }), ResourceExhausted);
  });

  test('for a clone looks at its source', async () => {
    const filesystem = new Filesystem({ count: 2, sizeBytes: 100n * mebibyte, freeBytes: 1000n * mebibyte });
    const [id] = filesystem.ids;
    assert.ok(id !== undefined);
    using _first = await filesystem.ledger.hold({ newBytes: mebibyte });
    filesystem.write(id, 100n * mebibyte);
    filesystem.looks.length = 0;
    using _clone = await filesystem.ledger.hold({ newBytes: 100n * mebibyte, sourceIds: [id] });
    assert.ok(filesystem.looks.includes(id));
    // Its source may have to write all of it again.
    filesystem.looks.length = 0;
    using _next = await filesystem.ledger.hold({ newBytes: mebibyte });
    assert.ok(filesystem.looks.includes(id));
  });

  test('on a real disk: what a user discards is not provisioned again', async () => {
    using scratch = new Scratch('space-in-use');
    const location = { type: 'file', path: scratch.join('pool.img'), sizeBytes: 1024n * mebibyte } as const;
    const pool = await openTestPool(scratch, { location });
    const sizeBytes = 256n * mebibyte;
    const block = { content: { type: 'block' } } as const;
    const { id } = await pool.create(volumeSpec('used', { ...block, sizeBytes }));
    const attached = await attachDevice(pool, id, { persistent: true });
    writeFileSync(attached.devicePath, Buffer.alloc(Number(sizeBytes), 1), { flag: 'r+', flush: true });
    await pool.create(volumeSpec('small', { ...block, sizeBytes: mebibyte }));
    const { availableBytes } = await pool.capacity();
    execFileSync('blkdiscard', [attached.devicePath]);
    const tooLarge = volumeSpec('large', { ...block, sizeBytes: availableBytes + 16n * mebibyte });
    await assert.rejects(pool.create(tooLarge), ResourceExhausted);
    await attached.release();
    await pool.detach(attached);
    await pool.close();
  });
});
