/** Runs in the virtual machine: the node service, in a container, is killed before and after each step of a volume's life. */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { CrashPoint } from '../../../src/volume/step.ts';
import { eventually } from '../../support/eventually.ts';
import { Scratch } from '../../support/scratch.ts';
import { clients, leftOf, nothing, server } from './gluster-node.ts';

const context = JSON.stringify({ kind: 'gluster', servers: '10.88.0.1', volume: 'gv0' });
const mortal = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? './mortal.ts' : './mortal.mjs', import.meta.url),
);

const points: readonly CrashPoint[] = (
  [
    ['volume-note/write', 1],
    ['gluster/note', 1],
    ['gluster/start', 1],
    ['gluster/note', 2],
    ['stage/mount', 1],
    ['publish/mount', 1],
    ['unpublish/unmount', 1],
    ['unstage/unmount', 1],
    ['gluster/unmount', 1],
    ['gluster/end', 1],
    ['gluster/forget', 1],
    ['volume-note/remove', 1],
  ] as const
).flatMap(([step, pass]) => [{ when: 'before', step, pass } as const, { when: 'after', step, pass } as const]);

/** A directory that the container and its node see, as the kubelet's. */
class SharedScratch extends Scratch {
  constructor() {
    super('killed');
    execFileSync('mount', ['--bind', '--make-shared', this.path, this.path]);
  }

  override [Symbol.dispose](): void {
    execFileSync('umount', ['--lazy', this.path]);
    super[Symbol.dispose]();
  }
}

/** A process in a mount namespace and a cgroup like those of a container. */
function contained(scratch: Scratch, ...words: string[]): string[] {
  return inNamespaces('--mount --propagation unchanged', scratch, words);
}

function inNamespaces(options: string, scratch: Scratch, words: readonly string[]): string[] {
  const script = `mkdir -p ${container} && echo $$ >${container}/cgroup.procs && exec unshare ${options} "$@"`;
  return ['-c', script, 'sh', process.execPath, mortal, scratch.path, ...words];
}

const container = '/sys/fs/cgroup/container';

function nextOneLeavesNothing(scratch: Scratch): void {
  const { status, stderr, stdout } = spawnSync('sh', contained(scratch, 'down', context), { encoding: 'utf8' });
  assert.equal(status, 0, `${stdout}${stderr}`);
  const { mounts, notes } = JSON.parse(stdout) as { mounts: string[]; notes: unknown[] };
  assert.deepEqual([mounts, notes], [[], []]);
  assert.deepEqual(leftOf(scratch), nothing);
}

before(() => server('make', '/target'));
after(() => {
  server('stop');
  rmdirSync(container);
});

describe('a node service that is killed', () => {
  for (const point of points) {
    test(`${point.when} ${point.step} ${point.pass}: the next one leaves nothing`, () => {
      using scratch = new SharedScratch();
      const killed = spawnSync('sh', contained(scratch, 'up', context, JSON.stringify(point)));
      assert.equal(killed.signal, 'SIGKILL', `${killed.stdout}${killed.stderr}`);
      nextOneLeavesNothing(scratch);
    });
  }
});

describe('a container without hostPID', () => {
  test('undoes nothing, and says why', () => {
    using scratch = new SharedScratch();
    const point: CrashPoint = { when: 'before', step: 'unpublish/unmount', pass: 1 };
    spawnSync('sh', contained(scratch, 'up', context, JSON.stringify(point)));
    const [client] = clients(scratch.path);
    const { mounts, notes } = leftOf(scratch);
    assert.ok(client !== undefined && mounts.length === 1 && notes.length === 2);
    const options = '--mount --propagation unchanged --pid --fork --mount-proc';
    const words = inNamespaces(options, scratch, ['down', context]);
    const { status, stderr } = spawnSync('sh', words, { encoding: 'utf8' });
    assert.notEqual(status, 0);
    assert.match(stderr, /does not see the processes of this node, so it undoes nothing: its pod needs hostPID: true/);
    assert.deepEqual([clients(scratch.path), leftOf(scratch).mounts, leftOf(scratch).notes], [[client], mounts, notes]);
    nextOneLeavesNothing(scratch);
  });
});

describe('a container that is killed with all of its processes', () => {
  test('takes no volume from a pod, whose writer goes on', async () => {
    using scratch = new SharedScratch();
    const target = scratch.join('kubelet', 'pods', 'volume-1', 'mount');
    const point: CrashPoint = { when: 'before', step: 'unpublish/unmount', pass: 1 };
    const log = scratch.join('written');
    const file = `${target}/log`;
    // It gives up at its first error.
    const loop = `until mountpoint -q ${target}; do sleep 0.05; done; n=0; until [ -e ${scratch.join('stop')} ]; do n=$((n+1)); echo $n >>${file} || exit 1; sync ${file} || exit 1; echo $n >${log}; done`;
    const ended = once(spawn('sh', ['-c', loop], { stdio: 'ignore' }), 'exit');
    const written = () => (existsSync(log) ? Number(readFileSync(log, 'utf8')) : 0);
    const killed = spawnSync('sh', contained(scratch, 'up', context, JSON.stringify(point)));
    assert.equal(killed.signal, 'SIGKILL', `${killed.stdout}${killed.stderr}`);
    writeFileSync(`${container}/cgroup.kill`, '1');
    assert.equal(clients(scratch.path).length, 1);
    const atKill = written();
    await eventually(async () => assert.ok(written() > atKill + 5));
    writeFileSync(scratch.join('stop'), '');
    const [code] = await ended;
    assert.equal(code, 0);
    mkdirSync(scratch.join('kubelet', 'pods'), { recursive: true });
    nextOneLeavesNothing(scratch);
  });
});
