/**
 * One life of a volume of a program, in a process that may die in it.
 * node mortal.ts DIRECTORY up|down PROGRAM-CONFIG CONTEXT [CRASH-POINT]
 */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ProgramConfig } from '../../src/pool/kinds/exec/config.ts';
import { armCrashPoint, type CrashPoint } from '../../src/volume/step.ts';
import { mountCapability } from '../support/node-volume.ts';
import { openExecHarness } from '../support/programs.ts';

const [, , path = '', work = '', config = '{}', context = '{}', point] = process.argv;
const scratch = { path, join: (...names: string[]) => join(path, ...names), [Symbol.dispose]: () => undefined };
rmSync(join(path, 'csi.sock'), { force: true });
if (work === 'up') writeFileSync(join(path, 'pid'), `${process.pid}`);
await using harness = await openExecHarness([JSON.parse(config) as ProgramConfig], { scratch });
const volume = harness.volume('mortal', mountCapability('SINGLE_NODE_WRITER', [], ''));
if (point !== undefined) armCrashPoint(JSON.parse(point) as CrashPoint);
if (work === 'up') {
  const volume_context = JSON.parse(context) as Record<string, string>;
  await volume.stage({ volume_context });
  await volume.publish({ volume_context });
}
await volume.down();
console.log(JSON.stringify({ mounts: harness.mounts(), notes: harness.notes() }));
