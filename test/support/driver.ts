import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { spawnWithUs } from './child.ts';
import { CallError, connectDriver, type DriverClient } from './client.ts';
import { eventually } from './eventually.ts';
import type { Scratch } from './scratch.ts';

/** The bundle that `npm test` has built for all of its tests (HOLDFAST_TEST_DRIVER); undefined: they run the sources. */
export const testBundle: string | undefined = process.env['HOLDFAST_TEST_DRIVER'];

/**
 * The driver, as a program and its first arguments. The bundle starts in half the time of the sources, and with V8's
 * compile cache beside it in less. env(1) sets the variable because tests give the driver an environment without ours.
 */
export const driverCommand: readonly string[] =
  testBundle === undefined
    ? [process.execPath, fileURLToPath(new URL('../../src/main.ts', import.meta.url))]
    : ['/usr/bin/env', `NODE_COMPILE_CACHE=${join(dirname(testBundle), 'compiled')}`, process.execPath, testBundle];

export interface DriverOptions {
  /** What to run instead of the sources: a bundle, another Node. */
  readonly command?: readonly string[];
  /** The text of the configuration file; without one there is the embedded default pool. */
  readonly config?: string;
  readonly environment?: Readonly<Record<string, string>>;
  /** For a second driver in the same directory. */
  readonly socketPath?: string;
  /** Beside the socket unless given. */
  readonly logPath?: string;
}

/** How a process ended. */
export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Longer than the driver gives its calls and pools. */
const stopPatienceMs = 60_000;

/** Only a failure takes this long. */
const waitPatienceMs = 120_000;

/**
 * A driver in a process of its own, with all its files in a scratch directory. Disposing of it stops it in order; a
 * driver that was killed can be followed by another one in the same directory.
 */
export class DriverProcess implements AsyncDisposable {
  readonly socketPath: string;
  readonly dataDirectory: string;
  readonly kubeletDirectory: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly startedMs: number;
  readonly #child: ChildProcess;
  readonly #ended: Promise<Ending>;
  readonly #logPath: string;

  private constructor(scratch: Scratch, options: DriverOptions) {
    this.socketPath = options.socketPath ?? scratch.join('csi.sock');
    this.dataDirectory = scratch.join('data');
    this.kubeletDirectory = scratch.join('kubelet');
    this.environment = environmentFor(scratch, options);
    mkdirSync(this.kubeletDirectory, { recursive: true });
    this.#logPath = options.logPath ?? `${this.socketPath}.log`;
    const log = openSync(this.#logPath, 'a');
    this.startedMs = performance.now();
    // A process group of its own: Ctrl-C is for us, and we stop the driver in order.
    this.#child = spawnWithUs([...(options.command ?? driverCommand), 'serve'], {
      stdio: ['ignore', log, log],
      detached: true,
      cwd: '/',
      env: this.environment,
    });
    closeSync(log);
    this.#ended = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => resolve({ code, signal }));
    });
  }

  static spawn(scratch: Scratch, options: DriverOptions = {}): DriverProcess {
    return new DriverProcess(scratch, options);
  }

  /** Starts a driver and waits until its pools are open. */
  static async start(scratch: Scratch, options: DriverOptions = {}): Promise<DriverProcess> {
    const driver = new DriverProcess(scratch, options);
    try {
      await driver.ready();
      return driver;
    } catch (error) {
      await driver[Symbol.asyncDispose]();
      throw error;
    }
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  connect(): DriverClient {
    return connectDriver(this.socketPath);
  }

  /** Waits for the socket. */
  async listening(): Promise<void> {
    while (!existsSync(this.socketPath)) {
      this.#assertHopeful('does not listen');
      await delay(2);
    }
  }

  /** Waits for the first Probe that says ready; tells when the first one was answered. Both since the start. */
  async ready(): Promise<{ readonly firstProbeMs: number; readonly readyMs: number }> {
    await this.listening();
    using client = this.connect();
    let firstProbeMs: number | undefined;
    for (;;) {
      this.#assertHopeful('does not get ready');
      const isReady = await probe(client);
      const elapsedMs = performance.now() - this.startedMs;
      if (isReady !== undefined) firstProbeMs ??= elapsedMs;
      if (isReady === true) return { firstProbeMs: firstProbeMs ?? elapsedMs, readyMs: elapsedMs };
      await delay(2);
    }
  }

  /** All it has written, to both outputs. */
  output(): string {
    return readFileSync(this.#logPath, 'utf8');
  }

  /** Its log lines, parsed. */
  log(): Record<string, unknown>[] {
    const lines = this.output().split('\n');
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
  }

  /** Waits for a line with this message. */
  async logged(message: string): Promise<void> {
    const since = performance.now();
    while (!this.log().some(({ msg }) => msg === message)) {
      this.#assertHopeful(`does not say '${message}'`, since);
      await delay(5);
    }
  }

  /** What is waited for can still come. */
  #assertHopeful(complaint: string, sinceMs = this.startedMs): void {
    const isLate = performance.now() - sinceMs > waitPatienceMs;
    if (!this.hasEnded && !isLate) return;
    const fate = this.hasEnded ? `ended by itself, and ${complaint}` : complaint;
    throw new Error(`the driver ${fate}:\n${this.output().slice(-4000)}`);
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  ended(): Promise<Ending> {
    return this.#ended;
  }

  /** Ends it at once, as kill -9 and a power cut do. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }

  /** Stops it in order. */
  async stop(): Promise<Ending> {
    if (!this.hasEnded) this.#child.kill('SIGTERM');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), stopPatienceMs);
    const ending = await this.#ended;
    clearTimeout(timer);
    return ending;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** What Probe says; undefined while nobody answers, at a socket that a killed driver left. */
async function probe(client: DriverClient): Promise<boolean | undefined> {
  try {
    return (await client.identity.Probe({})).ready?.value === true;
  } catch (error) {
    if (error instanceof CallError && error.code === 'UNAVAILABLE') return undefined;
    throw error;
  }
}

/**
 * Asserts that nothing of the drivers that worked in the directory is still mounted or attached. A device goes a moment
 * later if anybody on the machine looks at it.
 */
export async function assertNothingLeft(scratch: Scratch): Promise<void> {
  assert.deepEqual(scratch.mounts(), [], 'mounts were left');
  await eventually(() => assert.deepEqual(scratch.loops(), [], 'loop devices were left'));
}

/** What a driver, or a command beside it, is told in that directory. */
export function environmentFor(scratch: Scratch, options: DriverOptions = {}): Record<string, string> {
  const environment: Record<string, string> = {
    PATH: process.env['PATH'] ?? '',
    CSI_ENDPOINT: `unix://${options.socketPath ?? scratch.join('csi.sock')}`,
    HOLDFAST_DATA: scratch.join('data'),
    HOLDFAST_KUBELET_DIR: scratch.join('kubelet'),
    HOLDFAST_NODE_ID: 'node-1',
    ...options.environment,
  };
  if (options.config !== undefined) {
    environment['HOLDFAST_CONFIG'] = scratch.join('holdfast.yaml');
    writeFileSync(environment['HOLDFAST_CONFIG'], options.config);
  }
  return environment;
}
