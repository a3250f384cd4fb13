/** Chance that can be had again: the same numbers for the same seed (mulberry32). */
export class Random {
  readonly seed: number;
  #state: number;

  /** @param salt so that two users of one seed have numbers of their own */
  constructor(seed: number, salt = '') {
    this.seed = seed;
    this.#state = [...salt].reduce((sum, letter) => Math.imul(sum ^ letter.charCodeAt(0), 0x01000193), seed) | 0;
  }

  /** From 0 to below `bound`. */
  below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let bits = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return (((bits ^ (bits >>> 14)) >>> 0) / 4_294_967_296) * bound;
  }

  integer(from: number, to: number): number {
    return from + Math.floor(this.below(to - from + 1));
  }

  pick<T>(choices: readonly T[]): T | undefined {
    return choices[Math.floor(this.below(choices.length))];
  }
}

/** HOLDFAST_TEST_SEED, or another one each time. */
export function testSeed(): number {
  const given = process.env['HOLDFAST_TEST_SEED'];
  return given === undefined ? Math.floor(Math.random() * 2 ** 30) : Number(given);
}
