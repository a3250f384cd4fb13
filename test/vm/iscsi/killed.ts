/** Runs in the virtual machine: the node service is killed before and after each step of a volume's life. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { iscsiSessions } from '../../../src/kernel/block/iscsi.ts';
import { sysfsNames, sysfsText } from '../../../src/kernel/file/sysfs.ts';
import type { CrashPoint } from '../../../src/volume/step.ts';
import { eventually } from '../../support/eventually.ts';
import { Scratch } from '../../support/scratch.ts';

const iqn = 'iqn.2026-01.dev.holdfast:target';
const directory = '/target';
const script = fileURLToPath(new URL('../../../test/vm/iscsi/target.sh', import.meta.url));
const mortal = fileURLToPath(new URL('./mortal.mjs', import.meta.url));
const target = (...words: string[]) => execFileSync('sh', [script, ...words]);

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
        const run = (...words: string[]) => spawnSync(process.execPath, [mortal, scratch.path, ...words]);
        const killed = run('up', context, JSON.stringify(point));
        assert.equal(killed.signal, 'SIGKILL', `${killed.stdout}${killed.stderr}`);
        const { status, stderr, stdout } = run('down', context);
        assert.equal(status, 0, `${stdout}${stderr}`);
        assert.deepEqual(JSON.parse(stdout.toString()), { mounts: [], notes: [] });
        assert.deepEqual(iscsiSessions(iqn), []);
        // multipathd may still remove one that it was about to make.
        await eventually(() => assert.deepEqual(maps(), []), 60_000);
      });
    }
  });
}
