import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { CrashPoint, StepName } from '../../src/volume/step.ts';
import { loopsOver } from '../support/left-behind.ts';
import { ProgramDirectory } from '../support/programs.ts';
import { Scratch } from '../support/scratch.ts';

/* The node service is killed before and after each step of the life of a program's volume. */

const directory = new ProgramDirectory();
after(() => directory[Symbol.dispose]());
const mortal = fileURLToPath(new URL('./mortal.ts', import.meta.url));

/**
 * Before each step: after the one before it nothing else has changed.
 * @param runs calls of the program in such a life
 */
function points(runs: number, notes: number): CrashPoint[] {
  const passes: readonly (readonly [StepName, number])[] = [
    ['volume-note/write', 1],
    ['exec/note', notes],
    ['exec/run', runs],
    ['stage/mount', 1],
    ['unstage/unmount', 1],
    ['exec/forget', 1],
    ['volume-note/remove', 1],
  ];
  return passes.flatMap(([step, count]) =>
    Array.from({ length: count }, (_, index) => ({ when: 'before', step, pass: index + 1 }) as const),
  );
}

function liveAndDie(scratch: Scratch, program: object, options: Record<string, string>, point: CrashPoint | undefined) {
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

function image(scratch: Scratch): string {
  const path = scratch.join('image');
  execFileSync('truncate', ['--size', '64M', path]);
  execFileSync('mkfs.ext4', ['-q', path]);
  return path;
}

describe('a driver that is killed, with a program that attaches and mounts', () => {
  for (const point of points(9, 3)) {
    test(`${point.when} ${point.step} ${point.pass}: the next one leaves nothing`, () => {
      using scratch = new Scratch('killed');
      liveAndDie(scratch, { path: directory.example('loop') }, { 'options.image': image(scratch) }, point);
    });
  }
});

describe('a driver that is killed, with a program that mounts', () => {
  for (const point of points(4, 2)) {
    test(`${point.when} ${point.step} ${point.pass}: the next one leaves nothing`, () => {
      using scratch = new Scratch('killed');
      liveAndDie(scratch, { path: directory.example('tmpfs') }, {}, point);
    });
  }
});

describe('a driver that is killed while a program runs', () => {
  for (const verb of ['attach', 'mountdevice', 'mount', 'unmount', 'detach']) {
    test(`${verb}: the next one waits for it, and leaves nothing`, () => {
      using scratch = new Scratch('killed');
      const pid = scratch.join('pid');
      const kill = `{ kill -9 "$(cat ${pid})"; rm ${pid}; sleep 1; }`;
      const text = `[ "$1" != ${verb} ] || [ ! -e ${pid} ] || ${kill}\nexec ${directory.example('loop')} "$@"`;
      const path = directory.script(`killer-${verb}`, text);
      liveAndDie(scratch, { path }, { 'options.image': image(scratch) }, undefined);
    });
  }
});
