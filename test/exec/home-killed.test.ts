import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { CrashPoint, StepName } from '../../src/volume/step.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { ProgramDirectory } from '../support/programs.ts';
import { Scratch } from '../support/scratch.ts';

/* The home of a pool of a program is killed at each step; the next one makes, grows and deletes the same volume. */

const directory = new ProgramDirectory();
after(() => directory[Symbol.dispose]());
const mortal = fileURLToPath(new URL('./mortal-home.ts', import.meta.url));
const { id } = volumeSpec('a', { content: { type: 'directory' } });

function liveAndDie(program: string, point: CrashPoint, scratch: Scratch, wasDeleted = false): void {
  const run = (...words: string[]) =>
    spawnSync(process.execPath, [mortal, scratch.path, program, ...words], { timeout: 60_000, encoding: 'utf8' });
  const killed = run(JSON.stringify(point));
  assert.equal(killed.signal, 'SIGKILL', `${killed.stdout}${killed.stderr}`);
  const { status, stderr, stdout } = run();
  assert.equal(status, 0, `${stdout}${stderr}`);
  assert.deepEqual(JSON.parse(stdout), { made: wasDeleted ? [] : [id], left: [] });
  for (const name of ['tmp', 'volumes', 'trash'])
    assert.deepEqual(readdirSync(scratch.join('records', name)), [], name);
}

const passes: readonly (readonly [StepName, number])[] = [
  ['create/record', 1],
  ['exec/run', 5],
  ['create/commit', 1],
  ['grow/record', 1],
  ['remove/trash', 1],
];

describe('a home that is killed', () => {
  for (const [step, count] of passes) {
    for (let pass = 1; pass <= count; pass++) {
      for (const when of ['before', 'after'] as const) {
        test(`${when} ${step} ${pass}`, () => {
          using scratch = new Scratch('home');
          // The program has deleted it, and its record waits for the next DeleteVolume.
          const wasDeleted = ['after exec/run 5', 'before remove/trash 1'].includes(`${when} ${step} ${pass}`);
          liveAndDie(directory.example('storage'), { when, step, pass }, scratch, wasDeleted);
        });
      }
    }
  }

  for (const verb of ['create', 'grow', 'delete']) {
    test(`while ${verb} runs: the next call for the volume waits for it`, () => {
      using scratch = new Scratch('home');
      const pid = scratch.join('pid');
      const kill = `{ kill -9 "$(cat ${pid})"; rm ${pid}; sleep 1; }`;
      const text = `[ "$1" != ${verb} ] || [ ! -e ${pid} ] || ${kill}\nexec ${directory.example('storage')} "$@"`;
      const path = directory.script(`killer-${verb}`, text);
      liveAndDie(path, { when: 'before', step: 'exec/run', pass: 99 }, scratch, verb === 'delete');
    });
  }
});
