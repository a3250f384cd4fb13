import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import type { CrashPoint } from '../../../src/volume/step.ts';
import type { Scratch } from '../../support/scratch.ts';

/**
 * A node service dies at a step of a volume's life, and the next one leaves neither mounts nor notes of it.
 * @param mortal the program that lives it
 */
export function dieAndBeUndone(
  mortal: string,
  scratch: Pick<Scratch, 'path'>,
  context: string,
  point: CrashPoint,
): void {
  const run = (...words: string[]) => spawnSync(process.execPath, [mortal, scratch.path, ...words]);
  const killed = run('up', context, JSON.stringify(point));
  assert.equal(killed.signal, 'SIGKILL', `${killed.stdout}${killed.stderr}`);
  const { status, stderr, stdout } = run('down', context);
  assert.equal(status, 0, `${stdout}${stderr}`);
  assert.deepEqual(JSON.parse(stdout.toString()), { mounts: [], notes: [] });
}
