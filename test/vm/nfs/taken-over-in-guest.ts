/** Runs in the virtual machine: the machine of a pool's home is lost in the middle of each operation, and another takes over. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { CrashPoint, StepName } from '../../../src/volume/step.ts';
import { eventually } from '../../support/eventually.ts';
import { openTestNfs } from '../../support/nfs-pool.ts';
import { Scratch } from '../../support/scratch.ts';
import { clear } from '../lvm/operations.ts';
import { nfsOperations, onServer, unkept } from './operations.ts';

const mortal = fileURLToPath(new URL('./mortal.mjs', import.meta.url));
const server = (word: string) => execFileSync('sh', ['-c', `${process.env['HOLDFAST_TEST_SERVER']} ${word}`]);
/** Another client of the server: another network, and another host name, by which a server knows its clients. */
const elsewhere = ['--net=/run/netns/nfs2', 'unshare', '--uts', 'sh', '-c', 'hostname other && exec "$@"', 'sh'];
/** The server's address for it. */
const host = '10.78.0.1';
/** On a busy machine; the time of the lease is 10 s. */
const takeoverMs = 300_000;

const scratch = new Scratch('taken');
/** The other machine has a disk of its own. */
const otherDirectory = `/tmp/other/${basename(scratch.path)}`;
const operations = nfsOperations(scratch.path);
const open = () => openTestNfs(scratch, { lockTimeoutMs: takeoverMs });

function start(operation: string, name: string, point?: CrashPoint) {
  const words = [mortal, otherDirectory, operation, name, point === undefined ? '' : JSON.stringify(point), host];
  const child = spawn('nsenter', [...elsewhere, process.execPath, ...words], { stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  return { pid: child.pid ?? assert.fail(), ended: once(child, 'close'), said: () => said };
}

/** The step in the middle, and the last one. */
function pointsOf(steps: readonly StepName[]): CrashPoint[] {
  const at = new Set([steps.length >> 1, steps.length - 1]);
  return [...at].map((index) => {
    const step = steps[index] ?? assert.fail('the operation has no step');
    return { when: 'before', step, pass: steps.slice(0, index + 1).filter((each) => each === step).length };
  });
}

describe('the home of a pool on NFS whose machine is lost', () => {
  let count = 0;

  before(async () => {
    mkdirSync(otherDirectory, { recursive: true });
    server('second-client');
    await (await open()).close();
  });
  after(() => scratch[Symbol.dispose]());

  for (const [name, operation] of Object.entries(operations)) {
    test(`T03: in ${name}: another one goes on with it, and nothing is lost or left`, async (t) => {
      const prepare = async () => {
        const next = `v${++count}`;
        const pool = await open();
        await operation.prepare(pool, next);
        await pool.close();
        return next;
      };
      /** @param last the volume that the operation was about */
      const takeOver = async (last: string) => {
        const startedMs = performance.now();
        const pool = await open();
        const tookMs = performance.now() - startedMs;
        await operation.run(pool, last);
        await operation.check(pool, last);
        await clear(pool, '');
        await eventually(() => {
          for (const each of ['tmp', 'trash'] as const) assert.deepEqual(unkept(scratch.path, each), [], each);
          for (const each of ['volumes', 'snapshots']) assert.deepEqual(readdirSync(onServer(scratch.path, each)), []);
        });
        await pool.close();
        return tookMs;
      };
      const whole = await prepare();
      const complete = start(name, whole);
      assert.deepEqual(await complete.ended, [0, null]);
      const steps = JSON.parse(complete.said()) as StepName[];
      await takeOver(whole);
      for (const point of pointsOf(steps)) {
        const current = await prepare();
        const { ended, pid } = start(name, current, point);
        await eventually(() => assert.match(readFileSync(`/proc/${pid}/status`, 'utf8'), /^State:\tT/m), takeoverMs);
        server('cut-second');
        process.kill(pid, 'SIGKILL');
        const tookMs = await takeOver(current);
        t.diagnostic(`before ${point.step}: taken over within ${(tookMs / 1000).toFixed(1)} s`);
        server('heal-second');
        await ended;
      }
    });
  }
});
