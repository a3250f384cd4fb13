/**
 * Runs in the virtual machine: does one operation on a pool on NFS, and dies where it is told to, as from kill -9. With the
 * address of the server, by which another client of it goes, it stops there instead (SIGSTOP), until it is killed. Without
 * a point it prints the steps that it has passed.
 * node mortal.mjs DIRECTORY OPERATION NAME [CRASH-POINT [SERVER]]
 */
import assert from 'node:assert/strict';
import { channel } from 'node:diagnostics_channel';
import { join } from 'node:path';
import { armCrashPoint, type CrashPoint } from '../../../src/volume/step.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestNfs, testExport } from '../../support/nfs-pool.ts';
import { nfsOperations, unkept } from './operations.ts';

const [, , path = '', operationName = '', name = '', point = '', host] = process.argv;
const operation = nfsOperations(path)[operationName] ?? assert.fail();
const passed: string[] = [];
channel('holdfast:step').subscribe((step) => passed.push(String(step)));
if (point !== '') {
  const armed = JSON.parse(point) as CrashPoint;
  if (host === undefined) armCrashPoint(armed);
  else stopBefore(armed);
}
const scratch = { path, join: (...names: string[]) => join(path, ...names) };
const pool = await openTestNfs(scratch, {
  lockTimeoutMs: 300_000,
  exported: { ...testExport, ...(host !== undefined && { host }) },
});
await operation.run(pool, name);
// Removed behind the answer.
await eventually(() => assert.deepEqual(unkept(path, 'trash'), []));
await pool.close();
console.log(JSON.stringify(passed));

function stopBefore({ pass = 1, step }: CrashPoint): void {
  let passes = 0;
  channel('holdfast:step').subscribe((name) => {
    if (name === step && ++passes === pass) process.kill(process.pid, 'SIGSTOP');
  });
}
