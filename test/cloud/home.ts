import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { CrashPoint } from '../../src/volume/step.ts';
import { connectDriver, type DriverClient } from '../support/client.ts';
import type { Scratch } from '../support/scratch.ts';
import type { TestCloud } from './clouds.ts';

const program = fileURLToPath(new URL('./home-process.ts', import.meta.url));

/** The cloud may refuse a few. */
const maxStarts = 30;

/** A home in a process that may be killed at any time, and is followed by another one. */
export class Home implements AsyncDisposable {
  readonly #kind: string;
  readonly #scratch: Scratch;
  readonly #url: string;
  #child: ChildProcess | undefined;
  #client: DriverClient | undefined;
  #starting: Promise<void> | undefined;
  #wasKilled = false;
  kills = 0;
  /** How often it has ended by itself, at a crash point. */
  deaths = 0;

  constructor(cloud: TestCloud, scratch: Scratch, url: string) {
    cloud.environment(scratch, url);
    this.#kind = cloud.kind;
    this.#scratch = scratch;
    this.#url = url;
  }

  /** Starts one, unless one runs. */
  async start(point?: CrashPoint): Promise<void> {
    this.#starting ??= this.#start(point).finally(() => {
      this.#starting = undefined;
    });
    await this.#starting;
  }

  get controller(): DriverClient['controller'] {
    if (this.#client === undefined) throw new Error('no home runs');
    return this.#client.controller;
  }

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || !this.isRunning) return;
    this.kills++;
    this.#wasKilled = true;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    this.#client?.close();
  }

  async #start(point: CrashPoint | undefined): Promise<void> {
    for (let tries = 0; !this.isRunning; tries++) {
      if (tries === maxStarts) throw new Error(`no home started in ${maxStarts} tries`);
      if (this.#child?.signalCode === 'SIGKILL' && !this.#wasKilled) this.deaths++;
      this.#wasKilled = false;
      this.#client?.close();
      const words = [
        this.#kind,
        this.#scratch.path,
        this.#url,
        ...(point === undefined ? [] : [JSON.stringify(point)]),
      ];
      const child = spawn(process.execPath, [program, ...words], { stdio: ['ignore', 'pipe', 'inherit'] });
      this.#child = child;
      await Promise.race([once(child.stdout, 'data'), once(child, 'exit')]);
      if (this.isRunning) this.#client = connectDriver(this.#scratch.join('home.sock'));
    }
  }
}
