/** Runs in the virtual machine: the node service is killed before and after each step of a volume's life. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { nvmeSubsystem } from '../../../src/kernel/block/nvme.ts';
import type { CrashPoint } from '../../../src/volume/step.ts';
import { Scratch } from '../../support/scratch.ts';
import { dieAndBeUndone } from '../network-disk/killed.ts';
import { context, directory, nqn, target, uuid } from './guest.ts';

const mortal = fileURLToPath(new URL('./mortal.mjs', import.meta.url));

const points: readonly CrashPoint[] = (
  [
    ['volume-note/write', 1],
    ['nvme/note', 1],
    ['nvme/note', 2],
    ['nvme/connect', 1],
    ['nvme/note', 3],
    ['stage/mount', 1],
    ['unstage/unmount', 1],
    ['nvme/disconnect', 1],
    ['volume-note/remove', 1],
  ] as const
).flatMap(([step, pass]) => [
  { when: 'before', step, pass } as const,
  ...(step === 'nvme/note' ? [] : [{ when: 'after', step, pass } as const]),
]);

before(() => {
  target('make', directory);
  target('namespace', directory, '1', uuid, 'xfs');
});

describe('a node service that is killed', () => {
  for (const point of points) {
    test(`${point.when} ${point.step} ${point.pass}: the next one leaves nothing`, () => {
      using scratch = new Scratch('killed');
      dieAndBeUndone(mortal, scratch, JSON.stringify(context), point);
      assert.deepEqual(nvmeSubsystem(nqn), { nqn, controllers: [], namespaces: [] });
    });
  }
});
