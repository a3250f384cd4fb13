import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { CrashPoint } from '../../../src/volume/step.ts';
import { CallError, connectDriver, type DriverClient } from '../../support/client.ts';
import type { Scratch } from '../../support/scratch.ts';
import type { Outcome, RunningCommand } from '../machine/run-command.ts';
import type { VirtualMachine } from '../machine/virtual-machine.ts';

/** Every driver here is told this, so that a volume's id can be known before the volume is. */
export const nodeId = 'node-1';

/** What is kept of a node besides its pools: the driver's data and the kubelet's directory. */
const systemDirectory = '/data';
/** Only a failure takes this long; alone on a machine a driver takes 4 seconds, among many others minutes. */
const startPatienceMs = 900_000;
const probePauseMs = 200;

export interface GuestNodeOptions {
  readonly vm: VirtualMachine;
  readonly scratch: Scratch;
  /** How the driver is started there. */
  readonly program: string;
  /** The text of the configuration file. */
  readonly config: string;
  /** The pools in it. */
  readonly pools: readonly string[];
  /** What its driver is told beside that. */
  readonly environment?: Readonly<Record<string, string>>;
}

/**
 * A node in a virtual machine. Its own disk, /dev/vda, is ext4 with the driver's data and the kubelet's directory; the
 * driver runs there, and is called from here.
 */
export class GuestNode {
  readonly vm: VirtualMachine;
  readonly dataDirectory = `${systemDirectory}/holdfast`;
  readonly kubeletDirectory = `${systemDirectory}/kubelet`;
  readonly #options: GuestNodeOptions;
  readonly #configPath: string;
  #starts = 0;
  #driver: RunningCommand | undefined;
  #client: DriverClient | undefined;

  constructor(options: GuestNodeOptions) {
    this.#options = options;
    this.vm = options.vm;
    this.#configPath = options.scratch.join('config.yaml');
    writeFileSync(this.#configPath, options.config);
  }

  get #logPath(): string {
    return this.#options.scratch.join('driver.log');
  }

  /** Of the driver that runs. */
  get client(): DriverClient {
    if (this.#client === undefined) throw new Error('no driver runs');
    return this.#client;
  }

  /** Of the driver that was started last, as it is called there. */
  get socketPath(): string {
    return `/run/holdfast/csi-${this.#starts}.sock`;
  }

  /** Makes the filesystem of a new node's own disk. */
  async format(): Promise<void> {
    await this.vm.run('mkfs.ext4 -q -J size=8 /dev/vda');
  }

  /** After a boot: mounts the node's own disk. */
  async mount(): Promise<void> {
    const { dataDirectory, kubeletDirectory } = this;
    const directories = `${dataDirectory} ${kubeletDirectory}/plugins ${kubeletDirectory}/pods /run/holdfast`;
    await this.vm.run(`mkdir -p ${systemDirectory} && mount /dev/vda ${systemDirectory} && mkdir -p ${directories}`);
  }

  /** Starts a driver, and waits until its pools are open. */
  async start(crashAt?: CrashPoint): Promise<void> {
    this.spawn(crashAt);
    await this.ready();
  }

  /** Starts a driver; one that is to die at a step is told so. */
  spawn(crashAt?: CrashPoint): void {
    const { scratch } = this.#options;
    this.#starts++;
    const crash = crashAt === undefined ? '' : `${crashAt.when} ${crashAt.step} ${crashAt.pass ?? 1}`;
    const command = `exec env 'HOLDFAST_TEST_CRASH_AT=${crash}' ${this.#program} serve`;
    this.#driver = this.vm.start(command, this.#logPath);
    this.vm.tunnel(this.socketPath, scratch.join(`csi-${this.#starts}.sock`));
  }

  /** What an operator types there, in the environment of the driver that was started last, however it ends. */
  command(words: string): Promise<Outcome> {
    return this.vm.attempt(`${this.#program} ${words}`);
  }

  async ready(): Promise<void> {
    const { scratch } = this.#options;
    const giveUpAt = performance.now() + startPatienceMs;
    for (;;) {
      // A new connection each time: one to a socket that is not there yet waits longer and longer.
      const client = connectDriver(scratch.join(`csi-${this.#starts}.sock`));
      if (await isReady(client, this.#options.pools)) {
        this.#client = client;
        return;
      }
      client.close();
      const ending = this.#driver?.ending;
      if (ending !== undefined) throw new Error(`the driver ended by itself:\n${this.#driver?.lastWords()}`);
      if (performance.now() > giveUpAt) throw new Error(`the driver does not get ready:\n${this.#driver?.lastWords()}`);
      await delay(probePauseMs);
    }
  }

  /** Kills the driver. */
  async kill(): Promise<void> {
    this.forget();
    this.#driver?.kill();
    await this.#driver?.ended;
  }

  /** The machine is off, and the driver with it. */
  forget(): void {
    this.#client?.close();
    this.#client = undefined;
  }

  /** All that the drivers have logged. */
  log(): string {
    return readFileSync(this.#logPath, 'utf8');
  }

  get #program(): string {
    const environment = {
      ...this.#options.environment,
      CSI_ENDPOINT: `unix://${this.socketPath}`,
      HOLDFAST_CONFIG: this.#configPath,
      HOLDFAST_DATA: this.dataDirectory,
      HOLDFAST_KUBELET_DIR: this.kubeletDirectory,
      HOLDFAST_NODE_ID: nodeId,
    };
    const settings = Object.entries(environment).map(([name, value]) => `'${name}=${value}'`);
    return `env ${settings.join(' ')} ${this.#options.program}`;
  }

  /** The end of what the drivers have logged. */
  lastWords(): string {
    return this.#driver?.lastWords() ?? '';
  }
}

/** Probe also says so when a pool takes so long to open that its disk must be sick: on a busy host that means nothing. */
async function isReady(client: DriverClient, pools: readonly string[]): Promise<boolean> {
  const options = { deadlineMs: startPatienceMs };
  try {
    const { ready } = await client.identity.Probe({}, options);
    if (ready?.value !== true) return false;
    for (const pool of pools) await client.controller.GetCapacity({ parameters: { pool } }, options);
    return true;
  } catch (error) {
    const isEarly = error instanceof CallError && error.code === 'UNAVAILABLE';
    if (isEarly && !error.message.includes('could not be opened')) return false;
    throw error;
  }
}
