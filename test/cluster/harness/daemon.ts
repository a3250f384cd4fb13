import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

/** How to start a program that stays. */
export interface DaemonPlan {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  readonly logFile: string;
  readonly env?: Readonly<Record<string, string>>;
}

const stopPatienceMs = 20_000;

/** A program that stays, with its output in a file. It does not outlive this process, however that ends. */
export class Daemon implements AsyncDisposable {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #plan: DaemonPlan;

  constructor(plan: DaemonPlan) {
    this.name = plan.name;
    this.#plan = plan;
    const log = openSync(plan.logFile, 'a');
    this.#child = spawn('setpriv', ['--pdeathsig', 'SIGKILL', ...plan.command], {
      stdio: ['ignore', log, log],
      // Ctrl-C is for us, who then stop everything in order.
      detached: true,
      env: { PATH: process.env['PATH'], ...plan.env },
    });
    // node:test has finished when nothing is left that would keep the process alive (`run` with isolation none).
    this.#child.unref();
    closeSync(log);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Waits until `check` does not throw. Fails at once if the program ends instead. */
  async ready(check: () => Promise<unknown>, patienceMs = 300_000): Promise<void> {
    const giveUpAt = performance.now() + patienceMs;
    for (;;) {
      try {
        await check();
        return;
      } catch (error) {
        if (this.hasEnded) throw new Error(`${this.name} ended by itself:\n${this.lastWords()}`);
        if (performance.now() >= giveUpAt) {
          throw new Error(`${this.name} is not ready:\n${this.lastWords()}`, { cause: error });
        }
        await delay(100);
      }
    }
  }

  /** The end of its log. */
  lastWords(lines = 15): string {
    return readFileSync(this.#plan.logFile, 'utf8').trimEnd().split('\n').slice(-lines).join('\n');
  }

  /** As if the machine had run out of memory. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), stopPatienceMs);
    await this.#end('SIGTERM');
    clearTimeout(timer);
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    if (this.hasEnded) return;
    this.#child.ref();
    const gone = once(this.#child, 'exit');
    this.#child.kill(signal);
    await gone;
  }
}
