/** Releases resources in the opposite order, as AsyncDisposableStack does, which Node 22 does not have. */
export class Held implements AsyncDisposable {
  readonly #letGo: (() => PromiseLike<void>)[] = [];

  use<T extends AsyncDisposable>(held: T): T {
    this.#letGo.push(() => held[Symbol.asyncDispose]());
    return held;
  }

  defer(letGo: () => PromiseLike<void>): void {
    this.#letGo.push(letGo);
  }

  /** Passes on the duty to release: the caller does it from now on. */
  giveUp(): void {
    this.#letGo.length = 0;
  }

  /** Releases all, even if some fail. @throws the first failure */
  async [Symbol.asyncDispose](): Promise<void> {
    const failures: unknown[] = [];
    for (let letGo = this.#letGo.pop(); letGo !== undefined; letGo = this.#letGo.pop()) {
      try {
        await letGo();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
