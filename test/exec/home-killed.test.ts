import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { snapshotIdFor } from '../../src/volume/id.ts';
import type { CrashPoint, StepName } from '../../src/volume/step.ts';
import { volumeSpec } from '../support/image-pool.ts';
import { ProgramDirectory } from '../support/programs.ts';
import { Scratch } from '../support/scratch.ts';

/* The home of a pool of a program is killed at each step; the next one makes, grows and deletes the same volume. */

const directory = new ProgramDirectory();
after(() => directory[Symbol.dispose]());
const mortal = fileURLToPath(new URL('./mortal-home.ts', import.meta.url));
const { id } = volumeSpec('a', { content: { type: 'directory' } });
const { id: restoredId } = volumeSpec('b', { content: { type: 'directory' } });
const snapshotId = snapshotIdFor('node', 's');

/** @param deleted it was being deleted then */
function liveAndDie(program: string, point: CrashPoint, scratch: Scratch, deleted: string | undefined): void {
  const run = (...words: string[]) =>
    spawnSync(process.execPath, [mortal, scratch.path, program, ...words], { timeout: 60_000, encoding: 'utf8' });
  const killed = run(JSON.stringify(point));
  assert.equal(killed.signal, 'SIGKILL', `${killed.stdout}${killed.stderr}`);
  const { status, stderr, stdout } = run(...(deleted === undefined ? [] : [deleted]));
  assert.equal(status, 0, `${stdout}${stderr}`);
  assert.deepEqual(JSON.parse(stdout), { made: [...[id, restoredId].sort(), snapshotId], left: [] });
  for (const name of ['tmp', 'volumes', 'snapshots', 'trash'])
    assert.deepEqual(readdirSync(scratch.join('records', name)), [], name);
}

const passes: readonly (readonly [StepName, number])[] = [
  ['create/record', 2],
  ['exec/run', 7],
  ['create/commit', 2],
  ['snapshot/record', 1],
  ['snapshot/commit', 1],
  ['grow/record', 1],
  ['remove/trash', 2],
  ['snapshot/remove', 1],
];

const deletedThen: Readonly<Record<string, string>> = {
  'after exec/run 5': id,
  'before remove/trash 1': id,
  'after exec/run 6': restoredId,
  'before remove/trash 2': restoredId,
  'after exec/run 7': snapshotId,
};

describe('a home that is killed', () => {
  for (const [step, count] of passes) {
    for (let pass = 1; pass <= count; pass++) {
      for (const when of ['before', 'after'] as const) {
        test(`${when} ${step} ${pass}`, () => {
          using scratch = new Scratch('home');
          const deleted = deletedThen[`${when} ${step} ${pass}`];
          liveAndDie(directory.example('storage'), { when, step, pass }, scratch, deleted);
        });
      }
    }
  }

  const deletedBy: Readonly<Record<string, string>> = { delete: id, 'delete-snapshot': snapshotId };
  for (const verb of ['create', 'snapshot', 'grow', 'delete', 'delete-snapshot']) {
    test(`while ${verb} runs: the next call for the same object waits for it`, () => {
      using scratch = new Scratch('home');
      const pid = scratch.join('pid');
      const kill = `{ kill -9 "$(cat ${pid})"; rm ${pid}; sleep 1; }`;
      const text = `[ "$1" != ${verb} ] || [ ! -e ${pid} ] || ${kill}\nexec ${directory.example('storage')} "$@"`;
      const path = directory.script(`killer-${verb}`, text);
      liveAndDie(path, { when: 'before', step: 'exec/run', pass: 99 }, scratch, deletedBy[verb]);
    });
  }
});
