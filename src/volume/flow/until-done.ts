import { pause } from './pause.ts';

/** Work behind all answers that is tried again until it is done. */
export class UntilDone {
  readonly #retryMs: number;
  readonly #work: (signal: AbortSignal) => Promise<boolean>;
  readonly #ending = new AbortController();
  #isWanted = false;
  #running: Promise<void> | undefined;

  /** @param work returns false if something is left to do. It never rejects */
  constructor(retryMs: number, work: (signal: AbortSignal) => Promise<boolean>) {
    this.#retryMs = retryMs;
    this.#work = work;
  }

  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** There is something to do. Resolves once that is done, or given up. */
  async start(): Promise<void> {
    this.#isWanted = true;
    this.#running ??= this.#run();
    await this.#running;
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#ending;
    while (this.#isWanted && !signal.aborted) {
      this.#isWanted = false;
      if (await this.#work(signal)) continue;
      this.#isWanted = true;
      await pause(this.#retryMs, signal);
    }
    this.#running = undefined;
  }
}
