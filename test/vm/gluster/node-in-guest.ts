/** Runs in the virtual machine: volumes on GlusterFS, and their client and servers when they fail. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, existsSync, mkdirSync, readFileSync, statfsSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { ContextHarness } from '../../support/context-harness.ts';
import { eventually } from '../../support/eventually.ts';
import { mountCapability, type TestVolume } from '../../support/node-volume.ts';
import { refusedBriefly as refused } from '../../support/refused.ts';
import { Scratch } from '../../support/scratch.ts';
import { cgroupOf, clients, leftOf, nothing, openGlusterKind, server } from './gluster-node.ts';

const shared = mountCapability('MULTI_NODE_MULTI_WRITER');
const bricks = '/target';
const context = (change: Record<string, string> = {}) => ({
  ...{ kind: 'gluster', servers: '10.88.0.1', volume: 'gv0' },
  ...change,
});

let harness: ContextHarness;

before(() => server('make', bricks));
after(() => server('stop'));

beforeEach(async () => {
  const scratch = new Scratch('gluster');
  harness = await ContextHarness.open([await openGlusterKind(scratch)], scratch);
});
afterEach(() => harness[Symbol.asyncDispose]());

function nothingIsLeft(): void {
  assert.deepEqual([harness.mounts(), harness.notes(), leftOf(harness.scratch)], [[], [], nothing]);
}

/** Waits until the condition says so. */
async function conditionIs(volume: TestVolume, message: RegExp): Promise<void> {
  await eventually(async () => assert.match((await volume.stats()).volume_condition?.message ?? '', message), 120_000);
}

/** The one client of a test. */
function client(): number {
  const [pid, other] = clients(harness.scratch.path);
  assert.ok(pid !== undefined && other === undefined);
  return pid;
}

describe('a volume on GlusterFS', () => {
  test('is staged and published twice, outlives the driver outside of its cgroup, and leaves nothing', async () => {
    const volume = harness.volume('gv', shared);
    const volume_context = context();
    await volume.up(context());
    await volume.up(context());
    const second = join(volume.pod, 'second');
    await volume.publish({ volume_context, target_path: second });
    writeFileSync(join(volume.target, 'file'), 'data');
    assert.equal(readFileSync(join(second, 'file'), 'utf8'), 'data');
    assert.equal(readFileSync(`${bricks}/gv0/file`, 'utf8'), 'data');
    const { usage, volume_condition } = await volume.stats();
    assert.deepEqual(volume_condition, { abnormal: false, message: 'The bricks of this volume answer.' });
    const { blocks, bsize } = statfsSync(second);
    assert.ok(usage.some(({ total, unit }) => unit === 'BYTES' && total === BigInt(blocks * bsize)));
    assert.match(cgroupOf(client()), /\/holdfast-gluster[-/]pv-/);
    await refused(volume.unstage(), 'FAILED_PRECONDITION', /still published/);
    await harness.restart([await openGlusterKind(harness.scratch)]);
    assert.equal(readFileSync(join(second, 'file'), 'utf8'), 'data');
    await volume.unpublish(second);
    await volume.down();
    await volume.down();
    nothingIsLeft();
  });

  test('may be a directory, which no link leads out of, and none is followed to', async () => {
    mkdirSync(`${bricks}/outside`, { recursive: true });
    const whole = harness.volume('whole', shared);
    await whole.up(context());
    mkdirSync(join(whole.target, 'apps/data'), { recursive: true });
    writeFileSync(join(whole.target, 'apps/data/file'), 'inside');
    for (const [name, to] of [
      ['link', '/etc'],
      ['up', '../../../..'],
      ['near', 'apps/data'],
    ] as const) {
      symlinkSync(to, join(whole.target, name));
    }
    const part = harness.volume('part', shared);
    await part.up(context({ subDir: 'apps/data' }));
    assert.equal(readFileSync(join(part.target, 'file'), 'utf8'), 'inside');
    await part.down();
    for (const subDir of ['link', 'up', 'near', 'near/x', 'file']) {
      const volume = harness.volume(`bad-${subDir}`, shared);
      if (subDir === 'file') writeFileSync(join(whole.target, 'file'), '');
      const volume_context = context({ subDir });
      await refused(volume.stage({ volume_context }), 'FAILED_PRECONDITION', /symbolic link or a file/);
    }
    const missing = harness.volume('missing', shared);
    await refused(
      missing.stage({ volume_context: context({ path: 'gv0/none', subDir: '' }) }),
      'INVALID_ARGUMENT',
      /path says the same/,
    );
    await refused(
      missing.stage({ volume_context: { kind: 'gluster', servers: '10.88.0.1', path: 'gv0/none' } }),
      'NOT_FOUND',
      /there is no gv0\/none of 10\.88\.0\.1: make the directory first/,
    );
    await whole.down();
    nothingIsLeft();
  });

  test('that is not there, or whose servers are not, is refused in words', async () => {
    const volume = harness.volume('none', shared);
    const missing = context({ volume: 'gv9' });
    await refused(volume.stage({ volume_context: missing }), 'UNAVAILABLE', /is gv9 a started volume there\?/);
    const away = context({ servers: '10.88.0.77' });
    await refused(volume.stage({ volume_context: away }), 'UNAVAILABLE', /cannot be reached: .*10\.88\.0\.77:24007/);
    nothingIsLeft();
  });

  test('is reached by its second server if the first is away', async () => {
    const volume = harness.volume('second', shared);
    await volume.up(context({ servers: '10.88.0.77,10.88.0.1' }));
    await volume.down();
    nothingIsLeft();
  });
});

describe('mounts that somebody has unmounted', () => {
  test('take no volume from a pod: a stage is refused as long as it has the volume', async () => {
    const volume = harness.volume('by-hand', shared);
    await volume.up(context());
    const own = harness.mounts().filter((path) => path.startsWith(join(harness.kubelet, 'mounts')));
    assert.equal(own.length, 1);
    execFileSync('umount', [...own, volume.staging]);
    await refused(
      volume.stage({ volume_context: context() }),
      'FAILED_PRECONDITION',
      /its mount for the driver is gone, and pods still use the volume: end them first/,
    );
    writeFileSync(join(volume.target, 'file'), 'data');
    await volume.unpublish();
    await volume.up(context());
    assert.equal(readFileSync(join(volume.target, 'file'), 'utf8'), 'data');
    await volume.down();
    nothingIsLeft();
  });
});

describe('a file that a process has open although its mount is gone', () => {
  test('keeps the client, at an unstage and at the next stage, with the mount of the driver and without it', async () => {
    const volume = harness.volume('open', shared);
    await volume.up(context());
    const script = `exec 3>"$0/file"; echo; while read line; do echo $line >&3; echo; done`;
    const writer = spawn('sh', ['-c', script, volume.target], { stdio: ['pipe', 'pipe', 'inherit'] });
    const ended = once(writer, 'exit');
    try {
      await once(writer.stdout, 'data');
      const message = new RegExp(`process ${writer.pid} of this node still has its files open: end it first`);
      execFileSync('umount', ['--lazy', volume.target]);
      await volume.unpublish();
      await refused(volume.unstage(), 'UNAVAILABLE', message);
      await volume.up(context());
      await volume.unpublish();
      const own = harness.mounts().filter((path) => path.startsWith(join(harness.kubelet, 'mounts')));
      execFileSync('umount', ['--lazy', ...own, volume.staging]);
      await refused(volume.unstage(), 'UNAVAILABLE', message);
      await refused(volume.stage({ volume_context: context() }), 'UNAVAILABLE', message);
      writer.stdin.write('data\n');
      await once(writer.stdout, 'data');
    } finally {
      writer.stdin.end();
      await ended;
    }
    assert.equal(readFileSync(`${bricks}/gv0/file`, 'utf8'), 'data\n');
    await volume.down();
    nothingIsLeft();
  });
});

describe('a client that is killed', () => {
  test('is told, and the next publish or stage starts another one; the pods of before can be ended', async () => {
    const volume = harness.volume('killed', shared);
    const volume_context = context();
    await volume.up(context());
    writeFileSync(join(volume.target, 'kept'), 'kept');
    process.kill(client(), 'SIGKILL');
    await conditionIs(volume, /process that served this mount has ended: end the pod/);
    assert.throws(() => readFileSync(join(volume.target, 'kept')), { code: 'ENOTCONN' });
    // Kubernetes stages once for all pods of a node.
    const second = join(volume.pod, 'second');
    await volume.publish({ volume_context, target_path: second });
    assert.equal(readFileSync(join(second, 'kept'), 'utf8'), 'kept');
    await conditionIs(volume, /process that served this mount has ended: end the pod/);
    assert.equal((await volume.stats(second)).volume_condition?.abnormal, false);
    await volume.publish({ volume_context });
    assert.equal(readFileSync(join(volume.target, 'kept'), 'utf8'), 'kept');
    process.kill(client(), 'SIGKILL');
    await conditionIs(volume, /has ended/);
    await volume.stage({ volume_context });
    assert.equal(readFileSync(join(volume.staging, 'kept'), 'utf8'), 'kept');
    await volume.unpublish(second);
    await volume.down();
    nothingIsLeft();
  });

  test('is gone at the end, too, and nothing else of its volume stays', async () => {
    const volume = harness.volume('gone', shared);
    await volume.up(context());
    process.kill(client(), 'SIGKILL');
    await harness.restart([await openGlusterKind(harness.scratch)]);
    await volume.down();
    nothingIsLeft();
  });

  test('that is stopped and does not listen holds up no call, and the volume can be left', async () => {
    const volume = harness.volume('stopped', shared);
    await volume.up(context());
    process.kill(client(), 'SIGSTOP');
    const read = once(spawn('ls', ['-l', volume.target], { stdio: 'ignore' }), 'exit');
    await conditionIs(volume, /do not answer/);
    await conditionIs(volume, /do not answer/);
    await volume.down();
    await read;
    nothingIsLeft();
  });
});

describe('servers that fail', () => {
  test('cut off: calls end with a reason, the volume can be left, and is there again later', async () => {
    const volume = harness.volume('cut', shared);
    const left = harness.volume('left', shared);
    await volume.up(context());
    await left.up(context({ volume: 'gv1' }));
    writeFileSync(join(volume.target, 'kept'), 'kept');
    server('cut');
    const read = once(spawn('ls', ['-l', volume.target], { stdio: 'ignore' }), 'exit');
    await conditionIs(volume, /do not answer/);
    await left.down();
    await refused(left.stage({ volume_context: context({ volume: 'gv1' }) }), 'UNAVAILABLE', /cannot be reached/);
    server('heal');
    await conditionIs(volume, /The bricks of this volume answer/);
    await read;
    assert.equal(readFileSync(join(volume.target, 'kept'), 'utf8'), 'kept');
    await volume.down();
    nothingIsLeft();
  });

  test('bricks that are killed: the condition says so, a stage is refused, and a volume that waits can be left', async () => {
    const volume = harness.volume('bricks', shared);
    await volume.up(context());
    server('bricks-stop');
    await conditionIs(volume, /bricks do not answer \(Transport endpoint is not connected\)/);
    const other = harness.volume('other', shared);
    await refused(other.stage({ volume_context: context({ volume: 'gv1' }) }), 'UNAVAILABLE', /bricks do not answer/);
    await volume.down();
    server('bricks-start');
    nothingIsLeft();
  });

  test('restarted under load: a writer that tries again goes on, and what it synced is there', async () => {
    const volume = harness.volume('load', shared);
    await volume.up(context());
    const stop = harness.scratch.join('stop');
    const log = harness.scratch.join('written');
    const loop = `n=0; until [ -e ${stop} ]; do n=$((n+1)); until echo $n >>${volume.target}/log && sync ${volume.target}/log; do :; done 2>/dev/null; echo $n >${log}; done`;
    const writer = spawn('sh', ['-c', loop], { stdio: 'ignore' });
    const written = () => (existsSync(log) ? Number(readFileSync(log, 'utf8')) : 0);
    await eventually(async () => assert.ok(written() > 5));
    server('stop');
    server('start');
    const atRestart = written();
    await eventually(async () => assert.ok(written() > atRestart + 5), 120_000);
    const ended = once(writer, 'exit');
    appendFileSync(stop, '');
    await ended;
    const lines = new Set(readFileSync(join(volume.target, 'log'), 'utf8').split('\n'));
    for (let n = 1; n <= written(); n++) assert.ok(lines.has(String(n)), `${n} is missing`);
    execFileSync('sync', [join(volume.target, 'log')]);
    await volume.down();
    nothingIsLeft();
  });
});
