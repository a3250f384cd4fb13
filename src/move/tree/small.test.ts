import assert from 'node:assert/strict';
import { readlinkSync } from 'node:fs';
import { mkdtemp, rmdir } from 'node:fs/promises';
import { test } from 'node:test';
import { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { openDirectory } from '../../kernel/file/path.ts';
import { inDirectory } from './small.ts';

test('a directory in which a thread works stays open until that has ended, although its pool was given up', async () => {
  const [path, other] = [await mkdtemp('/var/tmp/holdfast-small-'), await mkdtemp('/var/tmp/holdfast-small-')];
  const queue = new DiskQueue('test', 2);
  const directory = await openDirectory(queue, path);
  const { promise: working, resolve: end } = Promise.withResolvers<void>();
  let number = -1;
  const job = inDirectory(queue, directory, ({ fd }) => {
    number = fd;
    return working;
  });
  queue.close(new Error('given up'));
  await assert.rejects(job, /given up/);
  await directory[Symbol.asyncDispose]();
  const elsewhere = new DiskQueue('other', 1);
  await using _opened = await openDirectory(elsewhere, other);
  assert.equal(readlinkSync(`/proc/self/fd/${number}`), path);
  end();
  await working;
  await Promise.all([rmdir(path), rmdir(other)]);
});
