import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { test } from 'node:test';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { deviceNumber } from '../../src/kernel/device.ts';
import { openAgain, openStill } from '../../src/pool/mapped-device.ts';
import { attachDisk, nameDisk, sparseFile } from '../support/disk.ts';
import { Scratch } from '../support/scratch.ts';

const queue = new DiskQueue('test', 1);
const numberOf = (path: string) => deviceNumber(statSync(path, { bigint: true }).rdev);

test('EN01: a device whose number another one has by now is not the one that was meant', async () => {
  using scratch = new Scratch('still');
  const [own, other] = ['own', 'other'].map((name) => attachDisk(sparseFile(scratch.join(name), 1)));
  assert.ok(own !== undefined && other !== undefined);
  const found = { device: numberOf(own), devicePath: own };
  await using opened = await openStill(queue, found, async () => found.device);
  assert.ok(opened !== undefined);
  // It went after it was found, and so did its name; or it was made anew, with another number.
  assert.equal(await openStill(queue, found, async () => undefined), undefined);
  assert.equal(await openStill(queue, found, async () => numberOf(other)), undefined);
  // Its node leads to another one.
  const devicePath = nameDisk(scratch, 'dm-0', other);
  assert.equal(await openStill(queue, { ...found, devicePath }, async () => found.device), undefined);
  // There is no node any more.
  execFileSync('rm', [devicePath]);
  assert.equal(await openStill(queue, { ...found, devicePath }, async () => undefined), undefined);
  await assert.rejects(
    openStill(queue, { ...found, devicePath }, async () => found.device),
    /does not see the devices of the node/,
  );
});

test('H21: a device that is gone each time it is opened is looked for a bounded number of times', async () => {
  const pausesMs = [1, 2, 4];
  const answers = (texts: readonly (string | undefined)[]) => {
    const left = [...texts];
    return { left, open: async () => left.shift() };
  };
  const never = answers([undefined, undefined, undefined, undefined, 'too late']);
  assert.equal(await openAgain(never.open, pausesMs), undefined);
  assert.deepEqual(never.left, ['too late']);
  const late = answers([undefined, undefined, 'there', 'once more']);
  assert.equal(await openAgain(late.open, pausesMs), 'there');
  assert.deepEqual(late.left, ['once more']);
});
