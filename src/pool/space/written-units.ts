import type { ByteRange } from '../../kernel/file/sparse.ts';

/** More units than two pieces of a copy have, which are written at a time and begin or end in the same one. */
const rememberedUnits = 4096;

/** Counts the space that a copy has taken, in whole units of its pool, each once. */
export class WrittenUnits {
  readonly #unitBytes: bigint;
  /** The ones that were counted last, in their order. */
  readonly #latest = new Set<bigint>();
  #bytes: bigint;

  /** @param foundBytes counted by an earlier try */
  constructor(unitBytes: bigint, foundBytes = 0n) {
    this.#unitBytes = unitBytes;
    this.#bytes = foundBytes;
  }

  get bytes(): bigint {
    return this.#bytes;
  }

  add({ lengthBytes, offsetBytes }: ByteRange): void {
    const last = (offsetBytes + lengthBytes - 1n) / this.#unitBytes;
    for (let unit = offsetBytes / this.#unitBytes; unit <= last; unit++) {
      if (this.#latest.has(unit)) continue;
      this.#latest.add(unit);
      this.#bytes += this.#unitBytes;
      if (this.#latest.size <= rememberedUnits) continue;
      const [oldest] = this.#latest;
      if (oldest !== undefined) this.#latest.delete(oldest);
    }
  }
}
