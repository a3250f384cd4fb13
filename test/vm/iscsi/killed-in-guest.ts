/** Runs in the virtual machine: the node service is killed before and after each step of a volume's life. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { iscsiSessions } from '../../../src/kernel/block/iscsi.ts';
import type { CrashPoint } from '../../../src/volume/step.ts';
import { Scratch } from '../../support/scratch.ts';

const iqn = 'iqn.2026-01.dev.holdfast:target';
const directory = '/target';
const context = JSON.stringify({ kind: 'iscsi', iqn, portals: '127.0.0.1:3260', lun: '1' });
const script = fileURLToPath(new URL('../../../test/vm/iscsi/target.sh', import.meta.url));
const mortal = fileURLToPath(new URL('./mortal.mjs', import.meta.url));
const target = (...words: string[]) => execFileSync('sh', [script, ...words]);

const points: readonly CrashPoint[] = (
  [
    ['volume-note/write', 1],
    ['iscsi/note', 1],
    ['iscsi/note', 2],
    ['iscsi/login', 1],
    ['iscsi/note', 3],
    ['iscsi/scan', 1],
    ['iscsi/note', 4],
    ['stage/mount', 1],
    ['unstage/unmount', 1],
    ['iscsi/logout', 1],
    ['volume-note/remove', 1],
  ] as const
).flatMap(([step, pass]) => [
  { when: 'before', step, pass } as const,
  ...(step === 'iscsi/note' ? [] : [{ when: 'after', step, pass } as const]),
]);

before(() => {
  target('make');
  target('backing', directory, 'first', 'xfs');
  target('map', '1', 'first');
});

describe('a node service that is killed', () => {
  for (const point of points) {
    test(`${point.when} ${point.step} ${point.pass}: the next one leaves nothing`, () => {
      using scratch = new Scratch('killed');
      const run = (...words: string[]) => spawnSync(process.execPath, [mortal, scratch.path, ...words]);
      const killed = run('up', context, JSON.stringify(point));
      assert.equal(killed.signal, 'SIGKILL', `${killed.stdout}${killed.stderr}`);
      const { status, stderr, stdout } = run('down', context);
      assert.equal(status, 0, `${stdout}${stderr}`);
      assert.deepEqual(JSON.parse(stdout.toString()), { mounts: [], notes: [] });
      assert.deepEqual(iscsiSessions(iqn), []);
    });
  }
});
