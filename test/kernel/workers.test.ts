import assert from 'node:assert/strict';
import { test } from 'node:test';
import { run } from './fixture.ts';

const script = `
  import { readdirSync } from 'node:fs';
  import { useWorkerThreads } from '${import.meta.resolve('../../src/kernel/call/workers.ts')}';
  const before = readdirSync('/proc/self/task').length;
  const first = useWorkerThreads(9);
  const again = useWorkerThreads(3);
  console.log(JSON.stringify({ first, again, started: readdirSync('/proc/self/task').length - before }));
`;

test('there are as many worker threads as were asked for, and a second wish changes nothing', async () => {
  const { stdout } = await run(process.execPath, ['--input-type=module-typescript', '--eval', script]);
  assert.deepEqual(JSON.parse(stdout), { first: 9, again: 9, started: 9 });
});
