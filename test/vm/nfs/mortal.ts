/**
 * Runs in the virtual machine: does one operation on a pool on NFS, and dies where it is told to, as from kill -9. Without a
 * point it prints the steps that it has passed.
 * node mortal.mjs DIRECTORY OPERATION NAME [CRASH-POINT]
 */
import assert from 'node:assert/strict';
import { channel } from 'node:diagnostics_channel';
import { join } from 'node:path';
import { armCrashPoint, type CrashPoint } from '../../../src/volume/step.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestNfs } from '../../support/nfs-pool.ts';
import { nfsOperations, unkept } from './operations.ts';

const [, , path = '', operationName = '', name = '', point] = process.argv;
const operation = nfsOperations(path)[operationName] ?? assert.fail();
const passed: string[] = [];
channel('holdfast:step').subscribe((step) => passed.push(String(step)));
if (point !== undefined) armCrashPoint(JSON.parse(point) as CrashPoint);
const scratch = { path, join: (...names: string[]) => join(path, ...names) };
const pool = await openTestNfs(scratch);
await operation.run(pool, name);
// Removed behind the answer.
await eventually(() => assert.deepEqual(unkept(path, 'trash'), []));
await pool.close();
console.log(JSON.stringify(passed));
