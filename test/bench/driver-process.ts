import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { environment } from '../../deploy/image/environment.ts';
import type { Scratch } from '../support/scratch.ts';

/** The two locations a pool has on most nodes: a directory of the host's filesystem, and the default, a file with XFS. */
export const pools = ['directory', 'file'] as const;
export type PoolName = (typeof pools)[number];

/** Where a bench driver's things are. */
export class DriverPlaces {
  readonly socket: string;
  readonly kubelet: string;
  readonly data: string;
  readonly config: string;
  readonly log: string;
  readonly #scratch: Scratch;

  /** @param morePools lines of the configuration */
  constructor(scratch: Scratch, morePools: readonly string[] = []) {
    this.#scratch = scratch;
    this.socket = scratch.join('csi.sock');
    this.kubelet = scratch.join('kubelet');
    this.data = scratch.join('data');
    this.config = scratch.join('holdfast.yaml');
    this.log = scratch.join('driver.log');
    mkdirSync(this.kubelet);
    // The size and the overcommit are for 16 volumes at a time, whatever room the machine has.
    writeFileSync(
      this.config,
      [
        'defaultPool: directory',
        'pools:',
        `  directory: { directory: ${scratch.join('pool')}, overcommit: 100 }`,
        `  file: { file: ${scratch.join('pool.img')}, size: 20Gi, overcommit: 100 }`,
        ...morePools.map((line) => `  ${line}`),
        '',
      ].join('\n'),
    );
  }

  /** Where a pool's files are, once the driver has opened it. */
  poolRoot(pool: PoolName): string {
    return pool === 'directory' ? this.#scratch.join('pool') : join(this.data, 'pools', pool);
  }
}

/** What /proc says of a process. */
export interface Footprint {
  readonly anonymousBytes: number;
  readonly residentBytes: number;
  readonly descriptors: number;
  readonly threads: number;
}

const stopPatienceMs = 20_000;

/** The driver as it is shipped, in a process of its own. */
export class DriverProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #places: DriverPlaces;
  /** When it was started, by performance.now(). */
  readonly startedMs: number;

  constructor(places: DriverPlaces, bundle: string, nodeArguments: readonly string[] = []) {
    const log = openSync(places.log, 'w');
    this.#places = places;
    this.startedMs = performance.now();
    this.#child = spawn(process.execPath, [...nodeArguments, bundle, 'serve'], {
      stdio: ['ignore', log, log],
      // Ctrl-C is for the bench, which then stops the driver in order.
      detached: true,
      env: {
        ...environment,
        PATH: process.env['PATH'],
        CSI_ENDPOINT: `unix://${places.socket}`,
        HOLDFAST_CONFIG: places.config,
        HOLDFAST_DATA: places.data,
        HOLDFAST_KUBELET_DIR: places.kubelet,
        HOLDFAST_NODE_ID: 'bench',
      },
    });
    closeSync(log);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Resolves as soon as the socket can be connected to. */
  async listening(): Promise<void> {
    while (!existsSync(this.#places.socket)) {
      if (this.#hasEnded()) throw new Error(`the driver ended by itself:\n${this.output().slice(-2000)}`);
      await delay(1);
    }
  }

  /** What it has written to its log and standard error. */
  output(): string {
    return readFileSync(this.#places.log, 'utf8');
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  footprint(): Footprint {
    const status = this.#status();
    return {
      anonymousBytes: status('RssAnon') * 1024,
      residentBytes: status('VmRSS') * 1024,
      descriptors: readdirSync(`/proc/${this.pid}/fd`).length,
      threads: status('Threads'),
    };
  }

  anonymousBytes(): number {
    return this.#status()('RssAnon') * 1024;
  }

  /** What /proc/PID/status has now, by name. */
  #status(): (name: string) => number {
    const status = readFileSync(`/proc/${this.pid}/status`, 'utf8');
    return (name) => Number(new RegExp(`^${name}:\\s+([0-9]+)`, 'm').exec(status)?.[1]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#hasEnded()) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), stopPatienceMs);
    await gone;
    clearTimeout(timer);
  }

  #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }
}
