/**
 * One life of a volume that a program makes, its snapshot and a volume of that, in a home that may die in it.
 * node mortal-home.ts DIRECTORY PROGRAM [CRASH-POINT | ID-OF-ONE-THAT-WAS-BEING-DELETED]
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { snapshotIdFor } from '../../src/volume/id.ts';
import { armCrashPoint, type CrashPoint } from '../../src/volume/step.ts';
import { eventually } from '../support/eventually.ts';
import { openExecPool, ProgramStorage } from '../support/exec-pool.ts';
import { volumeSpec } from '../support/image-pool.ts';

const [, , path = '', program = '', point] = process.argv;
const scratch = { join: (...names: string[]) => join(path, ...names) };
const storage = new ProgramStorage(scratch);
const more = { content: { type: 'directory' }, sizeBytes: 64n << 20n } as const;
const spec = volumeSpec('a', more);
const restored = volumeSpec('b', more);
const snapshot = { id: snapshotIdFor('node', 's'), name: 's', sourceId: spec.id, parameters: {} };
const pool = await openExecPool(scratch, program);
if (point?.startsWith('{')) {
  writeFileSync(join(path, 'pid'), `${process.pid}`);
  armCrashPoint(JSON.parse(point) as CrashPoint);
}
// Kubernetes repeats the call.
if (point === snapshot.id) await pool.removeSnapshot(snapshot.id);
for (const { id } of [spec, restored]) if (point === id) await pool.remove(id);
if ((await pool.find(spec.id)) === undefined) await pool.create(spec);
if ((await pool.findSnapshot(snapshot.id)) === undefined) await pool.takeSnapshots([snapshot]);
if ((await pool.find(restored.id)) === undefined) await pool.create(restored, { type: 'snapshot', id: snapshot.id });
const all = () => [...storage.volumes(), ...storage.snapshots()];
const made = all();
await pool.grow(spec.id, 128n << 20n);
await pool.remove(spec.id);
await pool.remove(restored.id);
await pool.removeSnapshot(snapshot.id);
await eventually(() => {
  if (all().length > 0) throw new Error('not deleted yet');
});
await pool.close();
console.log(JSON.stringify({ made, left: all() }));
