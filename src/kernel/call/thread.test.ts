import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { DataLoss } from '../../volume/errors.ts';
import { DiskQueue } from './disk-queue.ts';
import { KernelError } from './errno.ts';
import { invoke, libcCall } from './libc.ts';
import { isThreadFor, serveJobs, Thread } from './thread.ts';

const threadName = 'test';
const gettidCall = libcCall<readonly []>('int gettid(void)');
const queue = new DiskQueue('test', 4);
const thisThread = () => invoke(queue, gettidCall, []);

const jobs = {
  async threads() {
    return await Promise.all([thisThread(), thisThread(), thisThread()]);
  },
  async refuse() {
    throw new KernelError({ syscall: 'openat', errno: 2, path: '/x', detail: 'as a test wants it' });
  },
  async lose(message: string) {
    throw new DataLoss(message);
  },
  async mistake() {
    throw new TypeError('a mistake');
  },
  async wait() {
    await delay(600_000);
  },
  async leave() {
    process.exit(0);
  },
};

if (isThreadFor(threadName)) {
  serveJobs(jobs, async () => undefined);
} else {
  describe('a thread for many calls', () => {
    const start = () => new Thread<typeof jobs>(import.meta.url, threadName);

    test('makes all of them itself', async () => {
      await using thread = start();
      const ids = [
        ...(await thread.ask('threads', undefined as never)),
        ...(await thread.ask('threads', undefined as never)),
      ];
      assert.equal(new Set(ids).size, 1);
      assert.ok(!ids.includes(process.pid));
    });

    test('throws what its jobs throw, as errors of the same kind', async () => {
      await using thread = start();
      const failure = { syscall: 'openat', errno: 2, code: 'ENOENT', path: '/x', detail: 'as a test wants it' };
      await assert.rejects(thread.ask('refuse', undefined as never), (error) => {
        assert.ok(error instanceof KernelError);
        assert.deepEqual({ ...error, name: undefined }, { ...failure, name: undefined });
        return true;
      });
      await assert.rejects(thread.ask('lose', 'lost'), new DataLoss('lost'));
      await assert.rejects(thread.ask('mistake', undefined as never), { message: 'a mistake' });
    });

    test('is not waited for while it has not answered', async () => {
      const thread = start();
      const asked = assert.rejects(thread.ask('wait', undefined as never), /has ended/);
      await thread[Symbol.asyncDispose]();
      await thread.ask('leave', undefined as never).catch(() => undefined);
      await asked;
      await assert.rejects(thread.ask('threads', undefined as never), /has ended/);
    });

    test('that ends has not answered', async () => {
      const thread = start();
      await assert.rejects(thread.ask('leave', undefined as never), /has ended/);
      await thread[Symbol.asyncDispose]();
    });
  });
}
