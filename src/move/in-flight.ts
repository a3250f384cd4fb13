/** Work of which some goes on while the next begins. Its first failure is thrown where it is waited for. */
export class InFlight {
  readonly #running = new Set<Promise<void>>();
  #failed: { readonly error: unknown } | undefined;

  start(work: () => Promise<void>): void {
    const running = work()
      .catch((error: unknown) => {
        this.#failed ??= { error };
      })
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Waits until fewer than that go on. @throws what the first one that failed has thrown */
  async fewerThan(count: number): Promise<void> {
    while (this.#running.size >= count) await Promise.race(this.#running);
    if (this.#failed !== undefined) throw this.#failed.error;
  }

  /** Waits until none goes on, whatever has become of them. */
  async ended(): Promise<void> {
    await Promise.all(this.#running);
  }
}
