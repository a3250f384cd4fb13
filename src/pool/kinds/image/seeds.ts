import type { Descriptor } from '../../../kernel/call/descriptor.ts';

/** The open files from which new volumes are cloned, by the name of the template. */
export class Seeds {
  readonly #held = new Map<string, Descriptor>();

  hold(name: string, seed: Descriptor): void {
    this.#held.get(name)?.closeLater();
    this.#held.set(name, seed);
  }

  /** When this is done, blocks that only one other file shared with it are that file's alone. */
  async release(name: string): Promise<void> {
    const seed = this.#held.get(name);
    this.#held.delete(name);
    await seed?.[Symbol.asyncDispose]();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#held.keys()].map((name) => this.release(name)));
  }
}
