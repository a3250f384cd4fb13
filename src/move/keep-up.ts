/** The distance at first, and the smallest. */
const leastMs = 60_000;
const mostMs = 3_600_000;

/**
 * The time of the next round of a volume that stays in use. Each round takes a snapshot, and spreads on the disk what is written
 * after it; but all that is written between the last one and the end of the use has to be copied while its pod waits. That is what
 * grows with the distance. So the distance doubles only while a round has less than half of a short one, and a larger round
 * halves it: at the rate of before, no round gets much longer than a short one.
 */
export class KeepUp {
  readonly #shortBytes: bigint;
  readonly #leastMs: number;
  #distanceMs: number;
  #lastMs: number;

  constructor(nowMs: number, shortBytes: bigint, firstMs = leastMs) {
    this.#shortBytes = shortBytes;
    this.#leastMs = firstMs;
    this.#distanceMs = firstMs;
    this.#lastMs = nowMs;
  }

  isDue(nowMs: number): boolean {
    return nowMs - this.#lastMs >= this.#distanceMs;
  }

  /** True if a round is worth its snapshot once the volume is not in use: until its fence stands, its pod may start again. */
  isWorth(nowMs: number): boolean {
    return nowMs - this.#lastMs >= this.#leastMs;
  }

  /** A round has ended. */
  copied(nowMs: number, bytes: bigint): void {
    const isSmall = bytes * 2n <= this.#shortBytes;
    this.#distanceMs = isSmall ? Math.min(this.#distanceMs * 2, mostMs) : Math.max(this.#distanceMs / 2, this.#leastMs);
    this.#lastMs = nowMs;
  }
}
