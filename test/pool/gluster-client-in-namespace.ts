import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { openDirectory } from '../../src/kernel/file/path.ts';
import { unmountNow } from '../../src/kernel/mount/mount.ts';
import { type Mount, mountAt } from '../../src/kernel/mount/mount-table.ts';
import { processState } from '../../src/kernel/process/process.ts';
import { glusterNodeKind, openGlusterNode } from '../../src/pool/kinds/gluster/kind.ts';
import type { GlusterNode } from '../../src/pool/kinds/gluster/side.ts';
import type { NodeSide, VolumeOnNode } from '../../src/pool/node-side.ts';
import { accessModes } from '../../src/volume/capability.ts';
import { Unavailable } from '../../src/volume/errors.ts';
import { fileNameOf, type VolumeHandle } from '../../src/volume/handle.ts';
import { spawnWithUs } from '../support/child.ts';
import { eventually } from '../support/eventually.ts';
import { Scratch } from '../support/scratch.ts';

/* A FUSE mount of the test's own process stands for that of glusterfs: how the driver treats a client that lives or hangs. */

const program = fileURLToPath(new URL('../support/fuse-client.ts', import.meta.url));
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

function start(command: readonly string[], stdio: 'ignore' | ['ignore', 'pipe', 'inherit'] | [number] = 'ignore') {
  const child = spawnWithUs(command, { stdio });
  started.push(child);
  return child;
}

/** A client in one of its modes, which has mounted; `holder` holds its connection. */
async function serve(mode: string): Promise<{ child: ChildProcess; pid: number; holder: number; mount: Mount }> {
  mkdirSync(directory, { recursive: true });
  const child = start(
    [process.execPath, program, mode, '--process-name=fuse', directory],
    ['ignore', 'pipe', 'inherit'],
  );
  assert.ok(child.stdout !== null);
  const [text] = (await once(child.stdout, 'data')) as [Buffer];
  const mount = await mountAt(queue, directory);
  const { pid = 0 } = child;
  const state = await processState(queue, pid);
  assert.ok(mount !== undefined && state !== undefined);
  await node.notes.complete(volume.handle, { pid, startTicks: state.startTicks }, mount.device);
  return { child, pid, holder: Number(text), mount };
}

const isAlive = async (pid: number) => (await processState(queue, pid))?.isZombie === false;

describe('a client of GlusterFS', () => {
  test('that answers is attached, asked and ended', async () => {
    const { pid } = await serve('answers');
    const attachment = await side.attach(volume, { persistent: true });
    await attachment.release();
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
    const used = openSync(directory, 'r');
    const user = start(['sleep', '100'], [used]);
    closeSync(used);
    await assert.rejects(side.forget?.(volume) ?? Promise.resolve(), /a process of this node uses .*: end it first/);
    assert.deepEqual(scratch.mounts(), [directory]);
    await unmountNow(queue, directory, directory, ['detach']);
    const message = new RegExp(`process ${user.pid} of this node still has its files open`);
    await assert.rejects(side.forget?.(volume) ?? Promise.resolve(), message);
    assert.ok(await isAlive(pid));
    user.kill('SIGKILL');
    await once(user, 'exit');
    await side.forget?.(volume);
    // One that is exiting has no words any more, and is not waited for.
    await eventually(async () => assert.ok(!(await isAlive(pid))));
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
    const pod = scratch.join('pod');
    mkdirSync(pod);
    execFileSync('mount', ['--bind', directory, pod]);
    await node.notes.remove(volume.handle);
    const glusterd = createServer().listen(24_007, '127.0.0.1');
    await once(glusterd, 'listening');
    try {
      await assert.rejects(side.attach(volume, { persistent: true }), /pods still use the volume: end them first/);
    } finally {
      glusterd.close();
    }
    assert.ok(await isAlive(pid));
  });

  test('that has no note is reported when a driver starts', async () => {
    const { pid } = await serve('answers');
    await open(['/bin/true']);
    await node.notes.remove(volume.handle);
    await open(['/bin/true']);
    await eventually(async () => assert.deepEqual(warned, [{ pid, directory }]));
  });

  test('is not lost for a driver that does not see the host', async () => {
    const { child, mount } = await serve('answers');
    child.kill('SIGKILL');
    await once(child, 'exit');
    assert.equal(await side.isLost?.(volume, mount), true);
    await open(['/nowhere/glusterfs']);
    assert.equal(await side.isLost?.(volume, mount), false);
  });
});
