/** Pseudo-random numbers that a seed repeats (mulberry32). */
export class SeededRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** At least 0, less than 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(choices: readonly T[]): T {
    const choice = choices[this.below(choices.length)];
    if (choice === undefined) throw new RangeError('nothing to choose from');
    return choice;
  }

  /** Another row of numbers, for somebody whose turns come in no fixed order. */
  fork(): SeededRandom {
    return new SeededRandom(this.below(2 ** 32));
  }
}

/** Work that is done by chance; its failure says how to have it again. */
export async function repeatable(seed: number, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (cause) {
    const what = cause instanceof Error ? cause.message : `${cause}`;
    throw new Error(`${what}\nHOLDFAST_TEST_SEED=${seed} repeats the choices of this run`, { cause });
  }
}
