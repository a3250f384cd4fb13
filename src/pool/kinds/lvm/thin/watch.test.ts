import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { ThinPoolStatus } from '../../../../kernel/block/thin-status.ts';
import type { GroupState } from '../group/group-state.ts';
import { ThinWatch, type WatchedPool } from './watch.ts';

const mebibyte = 1n << 20n;

/** The used part of 100 MiB, of each. */
function statusWith({ data, metadata }: { readonly data: bigint; readonly metadata: bigint }): ThinPoolStatus {
  const filling = (used: bigint) => ({ usedBytes: used * mebibyte, totalBytes: 100n * mebibyte });
  return { mode: 'rw', needsCheck: false, data: filling(data), metadata: filling(metadata) };
}

/** Looks once. @returns the questions and the actions, in order */
async function look({ mock }: TestContext, used: Parameters<typeof statusWith>[0]): Promise<string[]> {
  mock.timers.enable({ apis: ['setTimeout'] });
  const done: string[] = [];
  const does = (what: string) => async () => void done.push(what);
  const state = { extentBytes: 4n * mebibyte } as GroupState;
  const pool: WatchedPool = {
    isOvercommitted: true,
    keepActive: async () => undefined,
    async status() {
      done.push('status');
      return statusWith(used);
    },
    extendData: does('data'),
    extendMetadata: does('metadata'),
    group: { freeBytes: 4096n * mebibyte, name: 'vg0', refresh: async () => undefined, state },
  };
  const silent = () => undefined;
  const watch = new ThinWatch(pool, { poolName: 'test', log: { info: silent, warn: silent, error: silent } });
  mock.timers.tick(1);
  await watch[Symbol.asyncDispose]();
  mock.timers.reset();
  return done;
}

test('the kernel is asked once at each look, and anew only after something has grown', async (t) => {
  assert.deepEqual(await look(t, { data: 10n, metadata: 10n }), ['status']);
  assert.deepEqual(await look(t, { data: 85n, metadata: 10n }), ['status', 'data', 'status']);
  assert.deepEqual(await look(t, { data: 85n, metadata: 60n }), ['status', 'metadata', 'status', 'data', 'status']);
});
