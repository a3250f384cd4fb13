import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { AdminClient } from '../../src/admin/client.ts';
import type { CrashPoint } from '../../src/volume/step.ts';
import { CallError, type DriverClient } from '../support/client.ts';
import { DriverProcess, type Ending } from '../support/driver.ts';
import type { Scratch } from '../support/scratch.ts';
import type { DriverCommand } from './bundle.ts';
import { type CrashPool, makePool, type PoolLocation } from './crash-pool.ts';

/** Every driver here is told this, so that a volume's id can be known before the volume is. */
export const nodeId = 'node-1';

/** How long an armed driver may take to reach its point: only a failure takes this long. */
const deathPatienceMs = 60_000;
const restartPatienceMs = 120_000;

/** What an operation needs of its node, where that is not what most have. */
export interface Circumstances {
  /** The first is the default pool; a file alone unless given. */
  readonly pools?: readonly [PoolLocation, ...PoolLocation[]];
  /** A volume is published to its node before it is staged there (ControllerPublishVolume). */
  readonly isAttachRequired?: boolean;
  /** Deleted volumes are kept for a time. */
  readonly keepsTrash?: boolean;
}

interface CrashNodeOptions {
  readonly command: DriverCommand;
  readonly scratch: Scratch;
  readonly circumstances: Circumstances;
  readonly pools: readonly CrashPool[];
  /** What is to be done to every client, for somebody who watches its calls. */
  readonly decorate?: (client: DriverClient) => DriverClient;
}

/** Nobody is there to be called: the driver was killed a moment ago. */
export class NoDriver extends Error {}

/** A node on which one driver after another dies, with its pools and the kubelet's directory. */
export class CrashNode implements AsyncDisposable {
  readonly scratch: Scratch;
  readonly circumstances: Circumstances;
  /** Of the driver that runs. */
  readonly admin: AdminClient;
  readonly dataDirectory: string;
  readonly kubeletDirectory: string;
  readonly #options: CrashNodeOptions;
  readonly #trace: string;
  #pools: readonly CrashPool[];
  #stepsTaken = 0;
  #driver: DriverProcess | undefined;
  #client: DriverClient | undefined;
  #isGone = false;

  constructor(options: CrashNodeOptions) {
    this.#options = options;
    this.scratch = options.scratch;
    this.circumstances = options.circumstances;
    this.#pools = options.pools;
    this.dataDirectory = options.scratch.join('data');
    this.kubeletDirectory = options.scratch.join('kubelet');
    share(this.kubeletDirectory);
    this.admin = new AdminClient(options.scratch.join('data', 'admin.sock'));
    this.#trace = options.scratch.join('steps');
  }

  /** Of the driver that runs. */
  get client(): DriverClient {
    if (this.#client === undefined) throw new NoDriver('no driver runs');
    return this.#client;
  }

  /** Of the driver that runs. */
  get pid(): number {
    if (this.#driver === undefined) throw new NoDriver('no driver runs');
    return this.#driver.pid;
  }

  get pools(): readonly CrashPool[] {
    return this.#pools;
  }

  /** From the next driver on, the pool of this name is configured like this. */
  configure(pool: CrashPool): void {
    this.#pools = this.#pools.map((each) => (each.name === pool.name ? pool : each));
  }

  get defaultPool(): CrashPool {
    const [first] = this.#pools;
    if (first === undefined) throw new Error('the node has no pool');
    return first;
  }

  /** Whether the driver that ought to run does not. */
  get hasEnded(): boolean {
    return this.#driver?.hasEnded ?? true;
  }

  get socketPath(): string {
    return this.scratch.join('csi.sock');
  }

  /** Waits until a driver works: at once if one does. */
  async working(): Promise<void> {
    while (this.#client === undefined) {
      if (this.#isGone) throw new Error('the node is gone');
      await delay(5);
    }
  }

  /** Starts a driver and waits until it works. */
  async start(how: { readonly at?: CrashPoint; readonly traced?: boolean } = {}): Promise<void> {
    this.spawn(how);
    await this.ready();
  }

  /** Starts a driver; who armed it for its own start expects it to have died before it works. */
  spawn({ at, traced = false }: { readonly at?: CrashPoint; readonly traced?: boolean } = {}): void {
    const { command, scratch } = this.#options;
    const environment: Record<string, string> = { ...command.environment, STEP_TRACE: this.#trace };
    if (at !== undefined) environment['HOLDFAST_TEST_CRASH_AT'] = `${at.when} ${at.step} ${at.pass ?? 1}`;
    this.#driver = DriverProcess.spawn(scratch, {
      command: traced ? command.traced : command.plain,
      config: this.#config(),
      environment,
    });
  }

  /** The socket of a driver that was killed is still there, so it does not tell that the new one listens. */
  async ready(): Promise<void> {
    const giveUpAt = performance.now() + restartPatienceMs;
    while (!(await this.#isReady())) {
      if (this.#driver?.hasEnded === true) throw new Error(`the driver ended by itself:\n${this.lastWords()}`);
      if (performance.now() > giveUpAt) throw new Error(`the driver does not get ready:\n${this.lastWords()}`);
      await delay(5);
    }
    const client = this.#driver?.connect();
    this.#client = client === undefined ? undefined : (this.#options.decorate?.(client) ?? client);
  }

  async #isReady(): Promise<boolean> {
    if (!existsSync(this.socketPath)) return false;
    using client = this.#driver?.connect();
    try {
      const answer = await client?.identity.Probe({});
      return answer?.ready?.value === true;
    } catch (error) {
      if (error instanceof CallError && error.code === 'UNAVAILABLE') return false;
      throw error;
    }
  }

  /** Ends the driver at once, as kill -9 does. */
  async kill(): Promise<void> {
    await this.#driver?.kill();
    this.#driver = undefined;
    this.#client?.close();
    this.#client = undefined;
  }

  /** Waits until an armed driver has killed itself. Fails if it lives: it never came to its point. */
  async died(): Promise<void> {
    const ended = this.#driver?.ended();
    const ending = await Promise.race([ended, delay(deathPatienceMs, undefined, { ref: false })]);
    if (ending === undefined) throw new Error('the driver lives: it has not come to the step it was to die at');
    if (ending.signal !== 'SIGKILL') throw new Error(`the driver ended otherwise:\n${this.lastWords()}`);
    this.#client?.close();
    this.#client = undefined;
    this.#driver = undefined;
  }

  /** Stops the driver in order. */
  async stop(): Promise<Ending | undefined> {
    this.#client?.close();
    this.#client = undefined;
    const ending = await this.#driver?.stop();
    this.#driver = undefined;
    return ending;
  }

  /** The steps passed by traced drivers since this was last asked. */
  takeSteps(): string[] {
    const lines = existsSync(this.#trace) ? readFileSync(this.#trace, 'utf8').trim().split('\n') : [];
    const fresh = lines.slice(this.#stepsTaken).filter((line) => line !== '');
    this.#stepsTaken += fresh.length;
    return fresh;
  }

  #config(): string {
    const { isAttachRequired = false, keepsTrash = false } = this.circumstances;
    const undelete = keepsTrash ? '1h' : '0';
    return [
      // With it, both ways to grow a volume are offered.
      'expansion: controller',
      `attach: ${isAttachRequired ? 'required' : 'none'}`,
      `defaultPool: ${this.defaultPool.name}`,
      'pools:',
      ...this.pools.map(({ config, name }) => `  ${name}: { ${config}, undelete: ${undelete} }`),
      '',
    ].join('\n');
  }

  /** The end of what the drivers have logged. */
  lastWords(): string {
    const path = `${this.socketPath}.log`;
    return existsSync(path) ? readFileSync(path, 'utf8').slice(-4000) : '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isGone = true;
    await this.kill();
  }
}

/** Mounts in it can be seen in other mount namespaces, and unmounts as well: as Kubernetes asks of the kubelet's directory. */
function share(directory: string): void {
  mkdirSync(directory);
  execFileSync('mount', ['--bind', '--make-shared', directory, directory]);
}

/** A node with nothing on it yet but its pools. */
export function makeNode(
  command: DriverCommand,
  scratch: Scratch,
  circumstances: Circumstances = {},
  decorate: (client: DriverClient) => DriverClient = (client) => client,
): CrashNode {
  const pools = (circumstances.pools ?? ['file']).map((location) => makePool(scratch, location));
  return new CrashNode({ command, scratch, circumstances, pools, decorate });
}
