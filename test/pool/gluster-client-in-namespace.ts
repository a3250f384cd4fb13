import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { openDirectory } from '../../src/kernel/file/path.ts';
import { abortConnection } from '../../src/kernel/mount/fuse.ts';
import { unmountNow } from '../../src/kernel/mount/mount.ts';
import { type Mount, mountAt } from '../../src/kernel/mount/mount-table.ts';
import { killProcess } from '../../src/kernel/process/kill.ts';
import { processState } from '../../src/kernel/process/process.ts';
import { clientsAt, endClient } from '../../src/pool/kinds/gluster/client.ts';
import { requireNoFiles } from '../../src/pool/kinds/gluster/ending.ts';
import { glusterNodeKind, openGlusterNode } from '../../src/pool/kinds/gluster/kind.ts';
import type { GlusterNode } from '../../src/pool/kinds/gluster/side.ts';
import type { NodeSide, VolumeOnNode } from '../../src/pool/node-side.ts';
import { accessModes } from '../../src/volume/capability.ts';
import { Unavailable } from '../../src/volume/errors.ts';
import { fileNameOf, type VolumeHandle } from '../../src/volume/handle.ts';
import { spawnWithUs, startNamespace } from '../support/child.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';

/* A FUSE mount of the test's own process stands for that of glusterfs: how the driver treats a client that lives or hangs. */

const program = fileURLToPath(new URL('../support/fuse-client.ts', import.meta.url));
const withoutHost = fileURLToPath(new URL('gluster-without-host.ts', import.meta.url));
const warned: object[] = [];
const log = { info() {}, warn: (facts: object) => void warned.push(facts), error() {} };
const queue = new DiskQueue('gluster', 4);
const volume: VolumeOnNode = {
  ...{ handle: 'orders' as VolumeHandle, content: { type: 'directory' }, accessModes, provisioning: 'thin' },
  context: { servers: '127.0.0.1', volume: 'gv0' },
};

let scratch: Scratch;
let node: GlusterNode;
let side: NodeSide;
let directory: string;
let started: ChildProcess[];

/** @param clientPaths programs that the host has, or has not */
async function open(clientPaths: readonly string[]): Promise<void> {
  const dataDirectory = scratch.join('data');
  node = await openGlusterNode({
    ...{ dataDirectory, mountsDirectory: scratch.join('mounts'), queue, log, clientPaths },
  });
  side = await glusterNodeKind(node).open({ server: '127.0.0.1', dataDirectory, queue, log });
  directory = join(node.mountsDirectory, fileNameOf(volume.handle), 'gluster');
}

beforeEach(async () => {
  scratch = new Scratch('gluster-client');
  started = [];
  await open(['/bin/true']);
});
afterEach(async () => {
  for (const child of started) child.kill('SIGKILL');
  await Promise.all(started.map((child) => child.exitCode ?? child.signalCode ?? once(child, 'exit')));
  scratch[Symbol.dispose]();
});

const onHost = ['nsenter', '--mount=/proc/1/ns/mnt'];

function start(
  command: readonly string[],
  stdio: 'ignore' | ['ignore' | 'pipe', 'pipe', 'inherit'] | [number] = 'ignore',
) {
  const child = spawnWithUs(command, { stdio });
  started.push(child);
  return child;
}

/** A client in one of its modes, which has mounted; `holder` holds its connection. */
async function serve(mode: string): Promise<{ child: ChildProcess; pid: number; holder: number; mount: Mount }> {
  mkdirSync(directory, { recursive: true });
  const served = await mountWith(mode, directory);
  const state = await processState(queue, served.pid);
  assert.ok(state !== undefined);
  await node.notes.complete(volume.handle, { pid: served.pid, startTicks: state.startTicks }, served.mount.device);
  return served;
}

/** The same without a note, at any directory. */
async function mountWith(mode: string, path: string) {
  const child = start(
    [...onHost, process.execPath, program, mode, '--process-name=fuse', path],
    ['ignore', 'pipe', 'inherit'],
  );
  assert.ok(child.stdout !== null);
  const [text] = (await once(child.stdout, 'data')) as [Buffer];
  const mount = await mountAt(queue, path);
  assert.ok(mount !== undefined && child.pid !== undefined);
  return { child, pid: child.pid, holder: Number(text), mount };
}

/** A process that has the directory open. */
function use(): ChildProcess {
  const used = openSync(directory, 'r');
  const user = start(['sleep', '100'], [used]);
  closeSync(used);
  return user;
}

/** A mount of a pod. */
function publish(): string {
  const pod = scratch.join('pod');
  mkdirSync(pod);
  execFileSync('mount', ['--bind', directory, pod]);
  return pod;
}

const forget = () => side.forget?.(volume) ?? Promise.resolve();
const stillUses = ({ pid }: ChildProcess) => new RegExp(`process ${pid} of this node still has its files open`);

/** A stage that no server hinders. */
async function attach(): Promise<void> {
  const glusterd = createServer().listen(24_007, '127.0.0.1');
  await once(glusterd, 'listening');
  try {
    await using _attachment = await side.attach(volume, { persistent: true }).then(({ release }) => ({
      [Symbol.asyncDispose]: async () => await release(),
    }));
  } finally {
    glusterd.close();
  }
}

const isAlive = async (pid: number) => (await processState(queue, pid))?.isZombie === false;

describe('a client of GlusterFS', () => {
  test('that answers is attached, asked and ended', async () => {
    const { pid } = await serve('answers');
    await attach();
    assert.equal((await side.condition?.(volume))?.abnormal, false);
    await side.forget?.(volume);
    assert.deepEqual([await isAlive(pid), scratch.mounts(), node.notes.read(volume.handle)], [false, [], undefined]);
  });

  test('that unmounts itself during a stage leaves no directory of the node for the pod', async () => {
    await serve('leaves');
    await assert.rejects(side.attach(volume, { persistent: true }), (error) => {
      assert.ok(error instanceof Unavailable);
      assert.match(error.message, /its glusterfs has ended meanwhile/);
      return true;
    });
    assert.deepEqual(scratch.mounts(), []);
  });

  test('that is slow keeps a mount that is in use', async () => {
    const { mount, pid } = await serve('slow');
    await using parent = await openDirectory(queue, dirname(directory));
    const used = openSync(directory, 'r');
    await assert.rejects(side.unmount?.(volume, { mount, parent, name: 'gluster' }) ?? Promise.resolve(), {
      code: 'EBUSY',
    });
    assert.deepEqual([scratch.mounts(), await isAlive(pid)], [[directory], true]);
    closeSync(used);
  });

  test('is not killed while a process has files open', async () => {
    const { pid } = await serve('answers');
    const user = use();
    await assert.rejects(forget(), stillUses(user));
    // Nothing is undone yet: the next pod gets it.
    assert.deepEqual(scratch.mounts(), [directory]);
    await attach();
    await unmountNow(queue, directory, directory, ['detach']);
    await assert.rejects(forget(), stillUses(user));
    await assert.rejects(attach(), stillUses(user));
    assert.ok(await isAlive(pid));
    user.kill('SIGKILL');
    await once(user, 'exit');
    await forget();
    assert.deepEqual([await isAlive(pid), node.notes.read(volume.handle)], [false, undefined]);
  });

  test('is not taken down while a process works in its directory', async () => {
    const { pid } = await serve('answers');
    start(['env', `--chdir=${directory}`, 'sleep', '100']);
    await eventually(() => assert.rejects(forget(), /a process of this node uses .*: end it first/));
    assert.deepEqual([await isAlive(pid), scratch.mounts()], [true, [directory]]);
  });

  test('that hangs is ended although a process has its files open and the mount of the driver is gone', async () => {
    const { child, pid } = await serve('answers');
    const user = use();
    await unmountNow(queue, directory, directory, ['detach']);
    await assert.rejects(forget(), stillUses(user));
    child.kill('SIGSTOP');
    await forget();
    assert.deepEqual([await isAlive(pid), await isAlive(user.pid ?? 0)], [false, true]);
  });

  test('whose mount only another container has is not ended for a stage, but for an unstage', async () => {
    const { pid } = await serve('answers');
    const pod = publish();
    await using _container = await startNamespace(pod);
    await unmountNow(queue, pod, pod, []);
    await unmountNow(queue, directory, directory, []);
    await assert.rejects(attach(), /pods still use the volume: end them first/);
    assert.ok(await isAlive(pid));
    await forget();
    assert.equal(await isAlive(pid), false);
  });

  test('is not killed if its volume has got a user meanwhile', async () => {
    const { mount, pid } = await serve('answers');
    const client = node.notes.read(volume.handle)?.client;
    assert.ok(client !== undefined);
    const requireUnused = () =>
      requireNoFiles(queue, { about: 'it', ask: async () => undefined, served: [mount.device] });
    const user = use();
    await assert.rejects(endClient(queue, client, { about: 'it', requireUnused }), stillUses(user));
    assert.ok(await isAlive(pid));
  });

  test('that a start has left behind is ended: no pod has it', async () => {
    const { pid } = await serve('answers');
    const pod = publish();
    await unmountNow(queue, directory, directory, []);
    await node.notes.begin(volume.handle, []);
    await forget();
    assert.deepEqual([await isAlive(pid), scratch.mounts()], [false, [pod]]);
  });

  test('that has read requests and answers none is left, and so are those who wait for it', async () => {
    const { holder, pid } = await serve('silent');
    const waiting = spawn('stat', [directory], { stdio: 'ignore' });
    const ended = once(waiting, 'exit');
    try {
      await side.forget?.(volume);
      await ended;
      assert.deepEqual([await isAlive(pid), await isAlive(holder), scratch.mounts()], [false, true, []]);
    } finally {
      process.kill(holder, 'SIGKILL');
      waiting.kill('SIGKILL');
    }
  });

  test('that has no note is not ended while a pod has its mount', async () => {
    const { pid } = await serve('answers');
    const pod = publish();
    await node.notes.remove(volume.handle);
    await assert.rejects(attach(), /pods still use the volume: end them first/);
    await unmountNow(queue, directory, directory, []);
    const message = new RegExp(`process ${pid}, a glusterfs, serves it without a note`);
    await assert.rejects(attach(), message);
    await assert.rejects(forget(), message);
    assert.deepEqual([await isAlive(pid), scratch.mounts()], [true, [pod]]);
  });

  test('that has no note is reported when a driver starts', async () => {
    const { pid } = await serve('answers');
    await open(['/bin/true']);
    await node.notes.remove(volume.handle);
    await open(['/bin/true']);
    await eventually(async () => assert.ok(warned.some((facts) => isDeepStrictEqual(facts, { pid, directory }))));
  });

  test('is left alone by a driver that does not see the host, and is not lost for it', async () => {
    const { child, mount, pid } = await serve('answers');
    const user = use();
    const words = [scratch.join('data'), node.mountsDirectory, JSON.stringify(volume)];
    const container = ['--pid', '--fork', '--mount', '--propagation', 'unchanged', '--mount-proc', '--kill-child'];
    const hidden = () =>
      JSON.parse(
        execFileSync('unshare', [...container, process.execPath, withoutHost, ...words], { encoding: 'utf8' }),
      ) as { refusal: string; isLost: boolean };
    assert.match(hidden().refusal, /^Unavailable: volume orders: .*: its pod needs hostPID: true\.$/);
    assert.deepEqual([await isAlive(pid), await isAlive(user.pid ?? 0), scratch.mounts()], [true, true, [directory]]);
    child.kill('SIGKILL');
    await once(child, 'exit');
    assert.equal(hidden().isLost, false);
    // The package may have been removed since.
    await open(['/nowhere/glusterfs']);
    assert.equal(node.notes.read(volume.handle)?.client?.pid, pid);
    assert.equal(await side.isLost?.(volume, mount), true);
  });

  test('is never a process of another user', async () => {
    const script = 'printf glusterfs >/proc/$$/comm; echo; read _';
    const words = ['setpriv', '--reuid=65534', '--clear-groups', 'sh', '-c', script, 'sh', '--process-name=fuse'];
    const { pid, stdout } = start([...onHost, ...words, directory], ['pipe', 'pipe', 'inherit']);
    assert.ok(stdout !== null && pid !== undefined);
    await once(stdout, 'data');
    assert.equal((await processState(queue, pid))?.command, 'glusterfs');
    assert.deepEqual(await clientsAt(queue, directory, undefined), []);
  });
});

describe('what is ended', () => {
  test('is no process that has got the number of another one meanwhile', async () => {
    const client = start(['sleep', '100']);
    const { pid = 0 } = client;
    let other: ChildProcess | undefined;
    await killProcess(pid, async () => {
      client.kill('SIGKILL');
      await once(client, 'exit');
      while (other?.pid !== pid) {
        other?.kill('SIGKILL');
        writeFileSync('/proc/sys/kernel/ns_last_pid', String(pid - 1));
        other = start(['sleep', '100']);
      }
      return true;
    });
    assert.ok(await isAlive(pid));
    await killProcess(pid, async () => false);
    assert.ok(await isAlive(pid));
    await killProcess(pid, async () => true);
    await eventually(async () => assert.ok(!(await isAlive(pid))));
  });

  test('is no connection of a filesystem that has got the number of another one meanwhile', async () => {
    const elsewhere = scratch.join('elsewhere');
    mkdirSync(elsewhere);
    const other = await mountWith('answers', elsewhere);
    await serve('answers');
    const look = () => execFileSync('stat', ['--file-system', elsewhere], { stdio: 'pipe' });
    await abortConnection(queue, directory, other.mount.device);
    await abortConnection(queue, scratch.join('none'), other.mount.device);
    look();
    await abortConnection(queue, elsewhere, other.mount.device);
    assert.throws(look);
  });

  test('is no connection below one that is silent', async () => {
    const { pid } = await serve('answers');
    const user = use();
    const { holder } = await mountWith('silent', directory);
    try {
      await assert.rejects(forget(), stillUses(user));
      execFileSync('stat', ['--file-system', `/proc/${user.pid}/fd/0`], { stdio: 'pipe' });
      assert.deepEqual([await isAlive(pid), scratch.mounts()], [true, [directory, directory]]);
    } finally {
      process.kill(holder, 'SIGKILL');
    }
  });
});
