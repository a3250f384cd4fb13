/** Runs in the virtual machine: the home of a pool on NFS is killed before and after each step of each operation. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { CrashPoint, StepName } from '../../../src/volume/step.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestNfs } from '../../support/nfs-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { clear, idOf } from '../lvm/operations.ts';
import { isWhole, nfsOperations, onServer, unkept } from './operations.ts';

const mortal = fileURLToPath(new URL('./mortal.mjs', import.meta.url));
const scratch = new Scratch('killed');
const operations = nfsOperations(scratch.path);
const precious = idOf('precious');

/** @returns the steps that it passed; undefined: it was killed */
function live(operation: string, name: string, point?: CrashPoint): StepName[] | undefined {
  const words = [mortal, scratch.path, operation, name, ...(point === undefined ? [] : [JSON.stringify(point)])];
  const { signal, status, stderr, stdout } = spawnSync(process.execPath, words, { encoding: 'utf8' });
  if (signal === 'SIGKILL') return undefined;
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout.trim());
}

function pointsOf(steps: readonly StepName[]): CrashPoint[] {
  const passes = new Map<StepName, number>();
  return steps.flatMap((step) => {
    const pass = (passes.get(step) ?? 0) + 1;
    passes.set(step, pass);
    return (['before', 'after'] as const).map((when) => ({ when, step, pass }));
  });
}

describe('the home of a pool on NFS that is killed', () => {
  let count = 0;

  before(async () => {
    const pool = await openTestNfs(scratch);
    await operations['clone']?.prepare(pool, 'precious');
    await pool.close();
  });
  after(() => scratch[Symbol.dispose]());

  for (const [name, operation] of Object.entries(operations)) {
    test(`T03: ${name}: the next one goes on with it, and nothing is lost or left`, async (t) => {
      /** Goes on with what is left of the last one, and prepares the next. */
      const between = async (last?: string) => {
        const next = `v${++count}`;
        const pool = await openTestNfs(scratch);
        if (last !== undefined) {
          await operation.run(pool, last);
          await operation.check(pool, last);
        }
        await clear(pool, 'precious');
        await eventually(() => {
          for (const each of ['tmp', 'trash'] as const) assert.deepEqual(unkept(scratch.path, each), [], each);
          assert.deepEqual(readdirSync(onServer(scratch.path, 'volumes')), [precious]);
          assert.deepEqual(readdirSync(onServer(scratch.path, 'snapshots')), []);
        });
        isWhole(onServer(scratch.path, 'volumes', precious, 'data'));
        await operation.prepare(pool, next);
        await pool.close();
        return next;
      };
      let current = await between();
      const steps = live(name, current) ?? [];
      t.diagnostic(steps.join(' '));
      for (const point of pointsOf(steps)) {
        current = await between(current);
        assert.equal(live(name, current, point), undefined, `${JSON.stringify(point)}: it was not reached`);
      }
      await between(current);
    });
  }
});
