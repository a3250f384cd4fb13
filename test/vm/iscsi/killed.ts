/** Runs in the virtual machine: the node service is killed before and after each step of a volume's life. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { sysfsNames, sysfsText } from '../../../src/kernel/file/sysfs.ts';
import type { CrashPoint } from '../../../src/volume/step.ts';
import { eventually } from '../../support/eventually.ts';
import { Scratch } from '../../support/scratch.ts';
import { dieAndBeUndone } from '../network-disk/killed.ts';
import { directory, iqn, sessions, target } from './guest.ts';

const mortal = fileURLToPath(new URL('./mortal.mjs', import.meta.url));

type Point = readonly [step: CrashPoint['step'], pass: number];

function pointsOf(steps: readonly Point[]): readonly CrashPoint[] {
  return steps.flatMap(([step, pass]) => [
    { when: 'before', step, pass } as const,
    ...(step === 'iscsi/note' ? [] : [{ when: 'after', step, pass } as const]),
  ]);
}

const maps = () =>
  sysfsNames('/sys/block').filter((name) => sysfsText(`/sys/block/${name}/dm/uuid`)?.startsWith('mpath-'));

/** @param portals of the volume. @param steps of its life in their order */
export function leavesNothing(portals: readonly string[], steps: readonly Point[]): void {
  const context = JSON.stringify({ kind: 'iscsi', iqn, portals: portals.join(','), lun: '1' });

  before(() => {
    target('make');
    if (portals.length > 1) target('second-up');
    target('backing', directory, 'first', 'xfs');
    target('map', '1', 'first');
  });

  describe('a node service that is killed', () => {
    for (const point of pointsOf(steps)) {
      test(`${point.when} ${point.step} ${point.pass}: the next one leaves nothing`, async () => {
        using scratch = new Scratch('killed');
        dieAndBeUndone(mortal, scratch, context, point);
        assert.deepEqual(sessions(), []);
        // multipathd may still remove one that it was about to make.
        await eventually(() => assert.deepEqual(maps(), []), 60_000);
      });
    }
  });
}
