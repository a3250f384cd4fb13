import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { openReadOnly } from '../../src/kernel/call/descriptor.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { planOf } from '../../src/pool/kinds/disk/label/labelling.ts';
import { chooseDevice } from '../../src/pool/kinds/disk/match/open-matched.ts';
import { hasFilesystemOf, hasLabelOf, judgeTwin, originalOf } from '../../src/pool/kinds/disk/twins.ts';
import { FailedPrecondition } from '../../src/volume/errors.ts';
import { attachDisk, sparseFile } from '../support/disk.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('test', 1);
const poolId = '0b7e6a52-2f4f-4c0e-8a3d-9f1c5d2e7a11';
const otherId = '5d0d7c7e-39c8-4f43-9a4f-3a7f2e0a6c55';
const sizeMebibytes = 32;
const shape = { sizeBytes: BigInt(sizeMebibytes) << 20n, sectorBytes: 512 };

function write(path: string, bytes: Buffer | string, at: number): void {
  const seek = `oflag=seek_bytes seek=${at} conv=notrunc,fsync status=none`.split(' ');
  execFileSync('dd', [`of=${path}`, ...seek], { input: bytes });
}

function labelled(scratch: Scratch, name: string, id: string): string {
  const path = sparseFile(scratch.join(name), sizeMebibytes);
  const disk = { name: 'wwid t10.disk', sizeBytes: shape.sizeBytes };
  for (const { bytes, offsetBytes } of planOf({ poolId: id, disk, shape }).flat())
    write(path, bytes, Number(offsetBytes));
  return path;
}

describe('H5: another disk with the name of the disk of a pool', () => {
  const judge = (own: string, twin: string) => judgeTwin(queue, attachDisk(own), attachDisk(twin), hasLabelOf(poolId));

  test('with nothing of the pool on it is no reason to keep the pool closed', async () => {
    using scratch = new Scratch('twins');
    const own = labelled(scratch, 'own.img', poolId);
    const foreign = sparseFile(scratch.join('foreign.img'), sizeMebibytes);
    execFileSync('mkfs.ext4', ['-q', foreign]);
    const others = [
      foreign,
      sparseFile(scratch.join('blank.img'), sizeMebibytes),
      sparseFile(scratch.join('tiny.img'), 1),
      labelled(scratch, 'other.img', otherId),
    ];
    for (const other of others) assert.equal(await judge(own, other), 'other', other);
  });

  test('is the same by another path, also after it was written to; a copy is not, once it was', async () => {
    using scratch = new Scratch('twins');
    const own = labelled(scratch, 'own.img', poolId);
    const copy = scratch.join('copy.img');
    copyFileSync(own, copy);
    const [path, otherPath, copyPath] = [attachDisk(own), attachDisk(own), attachDisk(copy)];
    const judgeBoth = () =>
      Promise.all([otherPath, copyPath].map((twin) => judgeTwin(queue, path, twin, hasLabelOf(poolId))));
    assert.deepEqual(await judgeBoth(), ['same', 'same']);
    // Where the pool's health is tried.
    write(path, 'written', (1 << 20) + (128 << 10));
    assert.deepEqual(await judgeBoth(), ['same', 'copy']);
  });

  test('that is larger is a copy', async () => {
    using scratch = new Scratch('twins');
    const own = labelled(scratch, 'own.img', poolId);
    const copy = scratch.join('copy.img');
    copyFileSync(own, copy);
    assert.equal(await judge(own, sparseFile(copy, sizeMebibytes + 8)), 'copy');
  });

  test('of a disk that was adopted: what has its filesystem, and is not the same, is a copy', async () => {
    using scratch = new Scratch('twins');
    const [own, other, copy] = ['own.img', 'other.img', 'copy.img'].map((name) =>
      sparseFile(scratch.join(name), sizeMebibytes),
    ) as [string, string, string];
    for (const each of [own, other]) execFileSync('mkfs.ext4', ['-q', each]);
    copyFileSync(own, copy);
    const path = attachDisk(own);
    await using device = await openReadOnly(queue, path);
    const has = await hasFilesystemOf(queue, device);
    const judgeOver = (twin: string) => judgeTwin(queue, path, attachDisk(twin), has);
    assert.equal(await judgeOver(other), 'other');
    assert.equal(await judgeOver(copy), 'same');
    execFileSync('tune2fs', ['-L', 'mounted', path], { stdio: 'ignore' });
    assert.equal(await judgeOver(copy), 'copy');
    assert.equal(await judgeOver(own), 'same');
  });
});

test('H38: of an adopted disk without a filesystem, a disk of its name that is not the same throughout is refused', async () => {
  using scratch = new Scratch('twins');
  const own = sparseFile(scratch.join('own.img'), sizeMebibytes);
  // What a database has on a raw device has no signature.
  write(own, Buffer.alloc(sizeMebibytes << 20, 'rows'), 0);
  const copyOf = (name: string) => {
    const copy = scratch.join(name);
    copyFileSync(own, copy);
    return copy;
  };
  const [older, larger] = [copyOf('older.img'), copyOf('larger.img')];
  write(older, Buffer.alloc(2 << 20, 'old rows'), 15 << 20);
  const path = attachDisk(own);
  await using device = await openReadOnly(queue, path);
  const question = await hasFilesystemOf(queue, device);
  const judge = (twin: string) => judgeTwin(queue, path, attachDisk(twin), question);
  assert.equal(await judge(own), 'same');
  assert.equal(await judge(older), 'copy');
  assert.equal(await judge(sparseFile(scratch.join('blank.img'), sizeMebibytes)), 'copy');
  assert.equal(await judge(sparseFile(larger, sizeMebibytes + 8)), 'copy');
  // The pool would not open over it: data would be missing.
  assert.equal(await judge(sparseFile(scratch.join('smaller.img'), sizeMebibytes - 1)), 'other');
});

test('H35: the disk that a label names as its first counts only as long as it has the label', async () => {
  using scratch = new Scratch('twins');
  const own = labelled(scratch, 'own.img', poolId);
  const copy = scratch.join('copy.img');
  copyFileSync(own, copy);
  const [cleared, given, unread] = [
    sparseFile(scratch.join('cleared.img'), sizeMebibytes),
    labelled(scratch, 'given.img', otherId),
    sparseFile(scratch.join('unread.img'), sizeMebibytes),
  ];
  write(unread, Buffer.alloc(2 << 20, 0xff), 0);
  const path = attachDisk(own);
  const firstOf = (...others: readonly string[]) => originalOf(queue, path, others, poolId);
  const [clearedPath, givenPath, copyPath, unreadPath] = [cleared, given, copy, unread].map((each) =>
    attachDisk(each),
  ) as [string, string, string, string];
  assert.equal(await firstOf(clearedPath, givenPath), undefined);
  assert.equal(await firstOf(clearedPath, copyPath), copyPath);
  write(copyPath, 'written', (1 << 20) + (128 << 10));
  assert.equal(await firstOf(copyPath), copyPath);
  // It may be the newer one.
  for (const silent of [unreadPath, scratch.join('gone')]) assert.equal(await firstOf(givenPath, silent), silent);
});

test('H49: of disks with one name, the one with the label of the pool is the disk of a pool of `match`', async () => {
  using scratch = new Scratch('twins');
  const own = attachDisk(labelled(scratch, 'own.img', poolId));
  const others = [
    attachDisk(sparseFile(scratch.join('blank.img'), sizeMebibytes)),
    attachDisk(labelled(scratch, 'other.img', otherId)),
    scratch.join('gone'),
  ];
  const known = { poolName: 'big-1', identity: 'serial 000000000001', poolId };
  for (const paths of [
    [own, ...others],
    [...others, own],
  ]) {
    assert.equal(await chooseDevice(queue, known, paths), own);
  }
  const because = (reason: RegExp) => (error: unknown) =>
    error instanceof FailedPrecondition && reason.test(error.message);
  await assert.rejects(chooseDevice(queue, known, others), because(/and none has the label of the pool/));
  await assert.rejects(chooseDevice(queue, known, []), because(/is not on this node/));
  // Of what is new nothing but the name is known.
  await assert.rejects(
    chooseDevice(queue, { ...known, poolId: undefined }, [own, ...others]),
    because(/all say that they/),
  );
});
