import type { HealthWatch } from '../pool.ts';

interface Wait {
  /** The name of the part that must answer, for people. */
  readonly what: string;
  readonly sinceMs: number;
}

/** A health check that runs: whatever it waits for has all of the time to answer, however long the others took. */
export class Question implements HealthWatch {
  readonly #now: () => number;
  readonly #waits = new Set<Wait>();
  /** Since when it has waited for nothing that has a name. */
  #unnamedSinceMs: number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#unnamedSinceMs = now();
  }

  waitsFor(what: string): () => void {
    const wait = { what, sinceMs: this.#now() };
    this.#waits.add(wait);
    return () => {
      this.#waits.delete(wait);
      this.#unnamedSinceMs = this.#now();
    };
  }

  /** The part that has not answered for at least that long; undefined: none. */
  silentFor(ms: number): string | undefined {
    // A set keeps the order in which they were asked.
    const [oldest = { what: 'its disk', sinceMs: this.#unnamedSinceMs }] = this.#waits;
    return this.#now() - oldest.sinceMs >= ms ? oldest.what : undefined;
  }
}
