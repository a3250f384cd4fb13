/**
 * The way to the worker threads, one lane for each pool. libuv's threads are few and shared: a disk that hangs would
 * take them all, and Probe and every other pool with them. A lane never has more than its share in use; what comes
 * beyond that waits here, in order, and hurts only callers of the same pool.
 */
export class Lane {
  readonly name: string;
  readonly #limit: number;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(name: string, limit: number) {
    if (!Number.isInteger(limit) || limit < 1) throw new RangeError(`a lane needs at least one place, not ${limit}`);
    this.name = name;
    this.#limit = limit;
  }

  /** Runs `work`, which may block one worker thread at a time. Never nest: work inside must not wait for the lane. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#limit) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else {
      this.#running++;
    }
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      // A place is handed over, not freed and taken again, so nobody overtakes.
      if (next === undefined) this.#running--;
      else next();
    }
  }

  /** How much runs at a time. */
  get places(): number {
    return this.#limit;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#waiting.length;
  }
}
