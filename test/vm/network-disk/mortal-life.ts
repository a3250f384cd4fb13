/** Runs in the virtual machine: one life of a volume on a target, in a process that may die in it. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { NodeKind } from '../../../src/pool/node-side.ts';
import { armCrashPoint, type CrashPoint } from '../../../src/volume/step.ts';
import { ContextHarness } from '../../support/context-harness.ts';
import { mountCapability } from '../../support/node-volume.ts';

/** node mortal.mjs DIRECTORY up|down CONTEXT [CRASH-POINT] */
export async function liveMortally(
  kind: NodeKind,
  fsType = 'xfs',
  secrets: Record<string, string> = {},
): Promise<void> {
  const [, , path = '', work = '', context = '{}', point] = process.argv;
  const scratch = { path, join: (...names: string[]) => join(path, ...names), [Symbol.dispose]: () => undefined };
  rmSync(join(path, 'csi.sock'), { force: true });
  await using harness = await ContextHarness.open([kind], scratch);
  const volume = harness.volume('mortal', mountCapability('SINGLE_NODE_WRITER', [], fsType));
  if (point !== undefined) armCrashPoint(JSON.parse(point) as CrashPoint);
  if (work === 'up') await volume.up(JSON.parse(context) as Record<string, string>, secrets);
  await volume.down();
  console.log(JSON.stringify({ mounts: harness.mounts(), notes: harness.notes() }));
}
