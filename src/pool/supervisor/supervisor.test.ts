import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { DataLoss } from '../../volume/errors.ts';
import type { Pool } from '../pool.ts';
import { DiskLost } from '../quarantine.ts';
import { PoolSupervisor } from './supervisor.ts';

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Starts a supervisor over a pool, and resolves when that was asked how it is twice. */
async function afterAnswer(answer: Error) {
  const { promise, resolve } = Promise.withResolvers<void>();
  let [asked, abandoned] = [0, 0];
  const opener = async (queue: DiskQueue) => {
    if (abandoned > 0) {
      resolve();
      throw answer;
    }
    const checkHealth = async () => {
      if (++asked > 1) resolve();
      throw answer;
    };
    return {
      name: 'test',
      queue,
      rescue: {},
      checkHealth,
      abandon: () => abandoned++,
      close: async () => {},
    } as unknown as Pool;
  };
  const makeQueue = () => new DiskQueue('test', 1);
  const supervisor = new PoolSupervisor({ name: 'test', opener, makeQueue, sickAfterMs: 40, log: silent });
  // Its timer alone keeps no process alive.
  const timer = setInterval(() => undefined, 1_000);
  try {
    assert.equal(await supervisor.open(), undefined);
    await promise;
    await supervisor.stop();
    return supervisor.state;
  } finally {
    clearInterval(timer);
  }
}

test('H34: a pool whose disk is somebody else’s is not open, and stays so', async () => {
  const state = await afterAnswer(new DiskLost('pool test: somebody else has written the label of /dev/sdx.'));
  assert.equal(state.state, 'quarantined');
  assert.match(
    state.state === 'quarantined' ? state.error.message : '',
    /: somebody else has written the label of \/dev\/sdx\. See/,
  );
});

test('an answer that says nothing of the disk gives up no pool', async () => {
  assert.equal((await afterAnswer(new DataLoss('a record is damaged.'))).state, 'open');
});
