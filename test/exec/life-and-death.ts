import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { CrashPoint } from '../../src/volume/step.ts';
import { loopsOver } from '../support/left-behind.ts';
import type { Scratch } from '../support/scratch.ts';

const mortal = fileURLToPath(new URL('./mortal.ts', import.meta.url));

/** A node service dies in the life of a volume, and the next one must leave nothing of it. */
export function liveAndDie(
  scratch: Scratch,
  program: object,
  options: Record<string, string>,
  point: CrashPoint | undefined,
) {
  const context = JSON.stringify({ kind: 'exec', program: 'it', ...options });
  const config = JSON.stringify({ name: 'it', ...program });
  const run = (...words: string[]) =>
    spawnSync(process.execPath, [mortal, scratch.path, ...words], { timeout: 60_000, encoding: 'utf8' });
  const killed = run('up', config, context, ...(point === undefined ? [] : [JSON.stringify(point)]));
  assert.equal(killed.signal, 'SIGKILL', `${killed.stdout}${killed.stderr}`);
  const { status, stderr, stdout } = run('down', config, context);
  assert.equal(status, 0, `${stdout}${stderr}`);
  assert.deepEqual(JSON.parse(stdout), { mounts: [], notes: [] });
  assert.deepEqual(readdirSync(scratch.join('data', 'exec')), ['locks']);
  assert.deepEqual(loopsOver(scratch.path), []);
}

/** A filesystem for a loop device. */
export function image(scratch: Scratch): string {
  const path = scratch.join('image');
  execFileSync('truncate', ['--size', '64M', path]);
  execFileSync('mkfs.ext4', ['-q', path]);
  return path;
}
