/** Runs in the virtual machine: the node service is killed before and after each step of the life of a volume on NFS. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { CrashPoint } from '../../../src/volume/step.ts';
import { testExport } from '../../support/nfs-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { dieAndBeUndone } from '../network-disk/killed.ts';

const { host: server, share } = testExport;
const subDir = 'legacy/data';
const context = JSON.stringify({ server, share, subDir });
const onServer = `/srv/files${share}/${subDir}`;
const mortal = fileURLToPath(new URL('./mortal-node.mjs', import.meta.url));

const points: readonly CrashPoint[] = (
  [
    ['volume-note/write', 1],
    ['note/write', 1],
    ['stage/mount', 1],
    ['volume-note/write', 2],
    ['note/write', 2],
    ['publish/target', 1],
    ['publish/mount', 1],
    ['unpublish/target', 1],
    ['unstage/unmount', 1],
    ['volume-note/remove', 1],
  ] as const
).flatMap(([step, pass]) => (['before', 'after'] as const).map((when) => ({ when, step, pass })));

describe('a node service with a volume on NFS that is killed', () => {
  before(() => {
    mkdirSync(onServer, { recursive: true });
    writeFileSync(`${onServer}/file`, 'precious');
  });

  for (const point of points) {
    test(`${point.when} ${point.step} ${point.pass}: the next one leaves nothing, and the data as it is`, () => {
      using scratch = new Scratch('killed');
      dieAndBeUndone(mortal, scratch, context, point);
      const exports = scratch.join('data', 'exports', server);
      assert.deepEqual(existsSync(exports) ? readdirSync(exports) : [], []);
      assert.equal(readFileSync(`${onServer}/file`, 'utf8'), 'precious');
    });
  }
});
