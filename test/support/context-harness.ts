import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import pino, { type Logger } from 'pino';
import { addServices } from '../../src/csi/call.ts';
import { type Listener, listen, newServer } from '../../src/csi/listener.ts';
import { DiskQueue } from '../../src/kernel/call/disk-queue.ts';
import { parseMountTable } from '../../src/kernel/mount/mount-table.ts';
import { nodeService } from '../../src/node/service.ts';
import type { NodeKind } from '../../src/pool/node-side.ts';
import { ContextVolumes } from '../../src/pool/on-node/context-volumes.ts';
import { Servers } from '../../src/pool/on-node/servers.ts';
import { ObjectQueue } from '../../src/volume/flow/object-queue.ts';
import type { VolumeId } from '../../src/volume/id.ts';
import { connectDriver, type DriverClient } from './client.ts';
import { exportKind, lunKind } from './context-kinds.ts';
import { TestVolume } from './node-volume.ts';
import { Scratch } from './scratch.ts';

const silent: Logger = pino({ level: 'silent' });

type HarnessDirectory = Pick<Scratch, 'join' | 'path'> & Disposable;

/** The node service of a process that has no pools, behind a real socket, in a directory of its own. */
export class ContextHarness implements AsyncDisposable {
  readonly scratch: HarnessDirectory;
  readonly kubelet: string;
  #running: { readonly servers: Servers; readonly listener: Listener; readonly client: DriverClient } | undefined;
  #volumes = 0;
  #kinds: readonly NodeKind[];
  readonly #log: Logger;

  private constructor(scratch: HarnessDirectory, kinds: readonly NodeKind[], log: Logger) {
    this.#log = log;
    this.scratch = scratch;
    this.kubelet = scratch.join('kubelet');
    this.#kinds = kinds;
  }

  /** @param scratch of a harness that has died, to go on with what that left */
  static async open(
    kinds: readonly NodeKind[] = [exportKind, lunKind],
    scratch: HarnessDirectory = new Scratch('context'),
    log = silent,
  ): Promise<ContextHarness> {
    const harness = new ContextHarness(scratch, kinds, log);
    for (const name of ['kubelet/staging', 'kubelet/pods', 'data']) {
      mkdirSync(harness.scratch.join(name), { recursive: true });
    }
    await harness.start();
    return harness;
  }

  /** @param silentAfterMs calls that wait this long for their server are given up */
  async start(silentAfterMs?: number): Promise<void> {
    const queue = new DiskQueue('kubelet', 4);
    const dataDirectory = this.scratch.join('data');
    const servers = new Servers({
      dataDirectory,
      log: this.#log,
      threadsEach: 2,
      threads: 8,
      ...(silentAfterMs && { silentAfterMs, tickMs: 500 }),
    });
    const volumes = await ContextVolumes.open({
      ...{ kinds: this.#kinds, servers, queue, log: this.#log },
      directory: this.#notes,
    });
    await volumes.tidyUp();
    const node = nodeService({
      ...{ nodeId: 'node', volumes, queue, objects: new ObjectQueue(), targetRoots: [this.kubelet] },
      topology: undefined,
      notes: { directory: join(dataDirectory, 'node') },
    });
    const server = newServer();
    addServices(server, { identity: {}, node }, { log: this.#log });
    const socketPath = this.scratch.join('csi.sock');
    const listener = await listen(server, socketPath);
    this.#running = { servers, listener, client: connectDriver(socketPath) };
  }

  async stop(): Promise<void> {
    this.#running?.client.close();
    await this.#running?.listener.close(1_000);
    this.#running?.servers.stop();
    this.#running = undefined;
  }

  /** @param kinds of another version of the driver */
  async restart(kinds = this.#kinds): Promise<void> {
    await this.stop();
    this.#kinds = kinds;
    await this.start();
  }

  get #notes(): string {
    return this.scratch.join('data', 'volumes');
  }

  /** The notes on volumes that lie on the node's disk now. */
  notes(): { readonly handle: string; readonly paths: readonly string[] }[] {
    return readdirSync(this.#notes).map((name) => JSON.parse(readFileSync(join(this.#notes, name), 'utf8')));
  }

  /** An image with a filesystem. */
  image(name: string, fsType: 'ext4' | 'xfs' = 'ext4'): string {
    const path = this.scratch.join(name);
    execFileSync('truncate', ['--size', fsType === 'xfs' ? '320M' : '64M', path]);
    execFileSync(`mkfs.${fsType}`, ['-q', path]);
    return path;
  }

  get node(): DriverClient['node'] {
    if (this.#running === undefined) throw new Error('the driver of this test is stopped');
    return this.#running.client.node;
  }

  /** The calls about a volume with this handle, and directories of its own. */
  volume(handle: string, capability: TestVolume['capability']): TestVolume {
    const name = `volume-${++this.#volumes}`;
    const staging = join(this.kubelet, 'staging', name);
    const pod = join(this.kubelet, 'pods', name);
    mkdirSync(staging, { recursive: true });
    mkdirSync(pod, { recursive: true });
    // Any text can be a handle here.
    return new TestVolume(() => this.node, handle as VolumeId, staging, pod, capability);
  }

  mounts(): string[] {
    const table = parseMountTable(readFileSync('/proc/self/mountinfo', 'utf8'));
    return table.map(({ target }) => target).filter((target) => target.startsWith(`${this.scratch.path}/`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.stop();
    } finally {
      this.scratch[Symbol.dispose]();
    }
  }
}
