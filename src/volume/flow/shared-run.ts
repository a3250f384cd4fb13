/**
 * Work that looks at the world for several callers. One run at a time. All callers that come before the next run begins
 * share it. A run in progress is never shared: it may have looked before the caller came.
 */
export class SharedRun<T> {
  readonly #work: () => Promise<T>;
  #latest: Promise<unknown> = Promise.resolve();
  #next: Promise<T> | undefined;

  constructor(work: () => Promise<T>) {
    this.#work = work;
  }

  run(): Promise<T> {
    this.#next ??= this.#runNext();
    return this.#next;
  }

  async #runNext(): Promise<T> {
    // A failure of the run before concerns only the callers that shared it.
    await this.#latest.catch(() => undefined);
    this.#next = undefined;
    const run = this.#work();
    this.#latest = run;
    return run;
  }
}
