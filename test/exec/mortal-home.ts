/**
 * One life of a volume that a program makes, in a home that may die in it.
 * node mortal-home.ts DIRECTORY PROGRAM [CRASH-POINT]
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { armCrashPoint, type CrashPoint } from '../../src/volume/step.ts';
import { eventually } from '../support/eventually.ts';
import { openExecPool, ProgramStorage } from '../support/exec-pool.ts';
import { volumeSpec } from '../support/image-pool.ts';

const [, , path = '', program = '', point] = process.argv;
const scratch = { join: (...names: string[]) => join(path, ...names) };
const storage = new ProgramStorage(scratch);
const spec = volumeSpec('a', { content: { type: 'directory' }, sizeBytes: 64n << 20n });
const pool = await openExecPool(scratch, program);
if (point !== undefined) {
  writeFileSync(join(path, 'pid'), `${process.pid}`);
  armCrashPoint(JSON.parse(point) as CrashPoint);
}
const found = await pool.find(spec.id);
if (found === undefined) await pool.create(spec);
const made = storage.volumes();
await pool.grow(spec.id, 128n << 20n);
await pool.remove(spec.id);
await eventually(() => {
  if (storage.volumes().length > 0) throw new Error('not deleted yet');
});
await pool.close();
console.log(JSON.stringify({ made, left: storage.volumes() }));
