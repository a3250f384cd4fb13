/** The distance at first, and the smallest. */
const minMs = 60_000;
const maxMs = 3_600_000;

/**
 * The time of the next round of a volume that stays in use. Each round takes a snapshot, and spreads the bytes on the disk that are
 * written after it; but all bytes that are written between the last one and the end of the use are copied while its pod waits, and
 * they grow with the distance. So the distance doubles only while a round has less than half of a short one, and a larger round
 * halves it: at the rate of before, no round gets much longer than a short one.
 */
export class KeepUp {
  readonly #shortBytes: bigint;
  readonly #minMs: number;
  #distanceMs: number;
  #lastMs: number;

  constructor(nowMs: number, shortBytes: bigint, firstMs = minMs) {
    this.#shortBytes = shortBytes;
    this.#minMs = firstMs;
    this.#distanceMs = firstMs;
    this.#lastMs = nowMs;
  }

  isDue(nowMs: number): boolean {
    return nowMs - this.#lastMs >= this.#distanceMs;
  }

  /** True if a round is worth its snapshot once the volume is not in use: until its fence stands, its pod may start again. */
  isWorth(nowMs: number): boolean {
    return nowMs - this.#lastMs >= this.#minMs;
  }

  /** A round has ended. */
  copied(nowMs: number, bytes: bigint): void {
    const isSmall = bytes * 2n <= this.#shortBytes;
    this.#distanceMs = isSmall ? Math.min(this.#distanceMs * 2, maxMs) : Math.max(this.#distanceMs / 2, this.#minMs);
    this.#lastMs = nowMs;
  }
}
