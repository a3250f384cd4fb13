import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pino from 'pino';
import { addServices } from '../../src/csi/call.ts';
import { type Listener, listen, newServer } from '../../src/csi/listener.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { type Mount, parseMountTable } from '../../src/kernel/mount/mount-table.ts';
import { nodeService } from '../../src/node/service.ts';
import type { Pool, VolumeSpec } from '../../src/pool/pool.ts';
import { Pools } from '../../src/pool/pools.ts';
import type { VolumeContent } from '../../src/volume/capability.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import { Child, startNamespace } from './child.ts';
import { CallError, connectDriver, type DriverClient } from './client.ts';
import { eventually } from './eventually.ts';
import { openTestPool, volumeSpec } from './image-pool.ts';
import { blockCapability, mountCapability, TestVolume } from './node-volume.ts';
import { Scratch } from './scratch.ts';

/** What tests look at in a mount. */
export type SeenMount = Pick<
  Mount,
  'device' | 'fsType' | 'id' | 'options' | 'root' | 'source' | 'superOptions' | 'target'
>;

/** The real node service with a real image pool behind a real socket, all in a directory of its own. */
export class NodeHarness implements AsyncDisposable {
  readonly scratch: Scratch;
  readonly kubelet: string;
  #running: { readonly pools: Pools; readonly listener: Listener; readonly client: DriverClient } | undefined;

  private constructor(scratch: Scratch) {
    this.scratch = scratch;
    this.kubelet = scratch.join('kubelet');
  }

  static async open(label = 'node'): Promise<NodeHarness> {
    const harness = new NodeHarness(new Scratch(label));
    for (const directory of ['kubelet/staging', 'kubelet/pods', 'pool', 'data']) {
      mkdirSync(harness.scratch.join(directory), { recursive: true });
    }
    await harness.start();
    return harness;
  }

  /** @param openPool what stands in for the pool; by default the image pool of the harness */
  async start(openPool: () => Promise<Pool> = () => openTestPool(this.scratch)): Promise<void> {
    const pools = new Pools(new Map([['test', openPool]]), 'test');
    await pools.open();
    await this.#serve(pools);
  }

  /** The driver answers, but opens its pool only after something else. */
  async startWhileOpening(before: Promise<void>): Promise<void> {
    const openPool = () => before.then(() => openTestPool(this.scratch));
    const pools = new Pools(new Map([['test', openPool]]), 'test');
    void pools.open();
    await this.#serve(pools);
  }

  async #serve(pools: Pools): Promise<void> {
    const node = nodeService({
      nodeId: 'node',
      topology: { 'topology.holdfast.dev/node': 'node' },
      pools,
      objects: new ObjectQueue(),
      targetRoots: [this.kubelet],
      notes: { directory: this.#notes },
      queue: new DiskQueue('kubelet', 4),
    });
    const server = newServer();
    addServices(server, { identity: {}, node }, { log: pino({ level: 'silent' }) });
    const socketPath = this.scratch.join('csi.sock');
    const listener = await listen(server, socketPath);
    this.#running = { pools, listener, client: connectDriver(socketPath) };
  }

  async stop(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    running?.client.close();
    await running?.listener.close(1_000);
    await running?.pools.close();
  }

  /** What is in memory is lost; the mounts and the disk stay, the notes unless `forgetNotes`. */
  async restart(options: { openPool?: () => Promise<Pool>; forgetNotes?: boolean } = {}): Promise<void> {
    await this.stop();
    if (options.forgetNotes === true) rmSync(this.#notes, { recursive: true, force: true });
    await this.start(options.openPool);
  }

  /** The notes look as they do after the node was started anew. */
  pretendReboot(): void {
    for (const name of readdirSync(this.#notes)) {
      const path = join(this.#notes, name);
      writeFileSync(path, readFileSync(path, 'utf8').replace(/"bootId":"[^"]*"/, '"bootId":"an earlier one"'));
    }
  }

  get #notes(): string {
    return this.scratch.join('data', 'node');
  }

  noteOf({ id }: TestVolume): string {
    return join(this.#notes, `${id}.json`);
  }

  directoryOf({ id }: TestVolume): string {
    return this.scratch.join('pool', 'volumes', id);
  }

  imageOf(volume: TestVolume): string {
    return join(this.directoryOf(volume), 'data');
  }

  /** The loop devices over a volume's image. */
  loopsOf(volume: TestVolume): string[] {
    const output = run('losetup', '--noheadings', '--output', 'NAME', '--associated', this.imageOf(volume));
    return output.split('\n').filter((line) => line !== '');
  }

  /**
   * Asserts how many loop devices the volume has, once the kernel has let go of those that are on their way out: it
   * waits while anybody on the machine looks at one.
   */
  async hasLoops(volume: TestVolume, count: number): Promise<void> {
    await eventually(() => assert.equal(this.loopsOf(volume).length, count, 'loop devices of the volume'));
  }

  /** Shuts the staged filesystem down, as its own error handling does when the disk fails. */
  shutDown(volume: TestVolume): void {
    if (this.mountsAt(volume.staging)[0]?.fsType === 'btrfs') {
      // This one only stops writing, which is also what an administrator can tell it to.
      run('mount', '-o', 'remount,ro', volume.staging);
      return;
    }
    // XFS_IOC_GOINGDOWN, which ext4 has taken over: without flushing the log.
    const program =
      'import fcntl, os, struct, sys; fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack("I", 2))';
    run('python3', '-c', program, volume.staging);
  }

  /** A process that works in a directory, and so keeps it busy. */
  workIn(directory: string): Promise<AsyncDisposable> {
    return Child.start(['sleep', '600'], { cwd: directory });
  }

  /** The same in a mount namespace of its own, so that what it keeps is another mount than ours. */
  workElsewhereIn(directory: string): Promise<AsyncDisposable> {
    return startNamespace(directory, directory);
  }

  get node(): DriverClient['node'] {
    return this.#live.client.node;
  }

  get pool(): Pool {
    return this.#live.pools.get('test');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.stop();
    } finally {
      this.scratch[Symbol.dispose]();
    }
  }

  /** Makes a volume and the directories that a container orchestrator makes for it. */
  async volume(name: string, content: VolumeContent, changes: Partial<VolumeSpec> = {}): Promise<TestVolume> {
    const { id } = await this.pool.create(volumeSpec(name, { content, ...changes }));
    const staging = join(this.kubelet, 'staging', id);
    const pod = join(this.kubelet, 'pods', id);
    mkdirSync(staging);
    mkdirSync(pod);
    const capability = content.type === 'block' ? blockCapability() : mountCapability();
    return new TestVolume(() => this.node, id, staging, pod, capability);
  }

  /** Makes a volume, and stages it with this capability. */
  async staged(name: string, content: VolumeContent, volume_capability = mountCapability()): Promise<TestVolume> {
    const volume = await this.volume(name, content);
    await volume.stage({ volume_capability });
    return volume;
  }

  /** The mounts at exactly this path, the lowest first. */
  mountsAt(path: string): SeenMount[] {
    return this.mounts().filter(({ target }) => target === path);
  }

  /** The mounts in the directory of the harness. */
  mounts(): SeenMount[] {
    const table = parseMountTable(readFileSync('/proc/self/mountinfo', 'utf8'));
    // Plain objects, so that two of them can be compared.
    return table
      .filter(({ target }) => target.startsWith(`${this.scratch.path}/`))
      .map(({ device, fsType, id, options, root, source, superOptions, target }) => {
        return { device, fsType, id, options, root, source, superOptions, target };
      });
  }

  get #live() {
    if (this.#running === undefined) throw new Error('the driver of this test is stopped');
    return this.#running;
  }
}

/** Runs a program of the host; its output, trimmed. */
export function run(program: string, ...args: string[]): string {
  return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
}

/** Asserts that a call is refused with this code; the message, for more to be said of it. */
export async function rejects(call: Promise<unknown>, code: string, words = /./): Promise<string> {
  try {
    await call;
  } catch (error) {
    assert.ok(error instanceof CallError, `${error}`);
    assert.equal(error.code, code, error.message);
    assert.match(error.message, words);
    return error.message;
  }
  throw new assert.AssertionError({ message: `the call was answered with OK, not ${code}` });
}

/** The size of the filesystem that is mounted there. */
export function sizeKiB(path: string): number {
  return Number(run('df', '--output=size', '-k', path).split('\n')[1]);
}
