import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { KernelError } from '../../../../kernel/call/errno.ts';
import type { DeviceNumber } from '../../../../kernel/device.ts';
import { askDisks, asksQueue, disksAskedAtOnce } from './ask-disks.ts';

const queue = new DiskQueue('test', disksAskedAtOnce);
const disks = Array.from({ length: 10 }, (_, minor) => ({ path: `/dev/sd${minor}`, device: { major: 8, minor } }));

test('H23: one disk that does not answer keeps nobody from asking the others, and it alone is waited for then', async () => {
  const waits = new Set<string>();
  const watch = {
    waitsFor(what: string) {
      waits.add(what);
      return () => waits.delete(what);
    },
  };
  const asked: number[] = [];
  const sick = Promise.withResolvers<void>();
  let max = 0;
  const ask = async (_queue: DiskQueue, { minor }: DeviceNumber) => {
    asked.push(minor);
    max = Math.max(max, waits.size);
    if (minor === 1) await sick.promise;
    if (minor === 2) throw new KernelError({ syscall: 'read', errno: 5 });
    await Promise.resolve();
  };
  const asking = askDisks(queue, disks, watch, ask);
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
  assert.deepEqual([...waits], ['its disk /dev/sd1']);
  assert.equal(asked.length, 10);
  assert.equal(max, disksAskedAtOnce);
  sick.resolve();
  await asking;
  assert.equal(waits.size, 0);
  await assert.rejects(
    askDisks(queue, disks, watch, async () => {
      throw new Error('the pool is given up');
    }),
    /given up/,
  );
});

test('a disk that fails while it is asked is no fault of the pool, which would ask again and again', async () => {
  const heard: unknown[] = [];
  const pool = new DiskQueue('pool', 1);
  pool.onFailure = (error) => heard.push(error);
  const asks = asksQueue(pool);
  const failing = async (queue: DiskQueue) =>
    await queue.run(async () => {
      throw new KernelError({ syscall: 'read', errno: 5 });
    });
  await askDisks(asks, disks, { waitsFor: () => () => undefined }, failing);
  assert.deepEqual(heard, []);
});
