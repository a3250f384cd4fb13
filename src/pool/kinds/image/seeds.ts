import type { Descriptor } from '../../../kernel/call/descriptor.ts';

/** What new volumes are cloned from, held open, by the name of its template. */
export class Seeds {
  readonly #held = new Map<string, Descriptor>();

  hold(name: string, seed: Descriptor): void {
    this.#held.get(name)?.closeLater();
    this.#held.set(name, seed);
  }

  /** What shares blocks with it alone has them for itself when this is done. */
  async release(name: string): Promise<void> {
    const seed = this.#held.get(name);
    this.#held.delete(name);
    await seed?.[Symbol.asyncDispose]();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#held.keys()].map((name) => this.release(name)));
  }
}
