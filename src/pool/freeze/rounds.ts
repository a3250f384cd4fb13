export interface RoundsOptions {
  /** A round that takes no longer leaves nothing worth another one. */
  readonly enoughMs: number;
  readonly atMost: number;
  /** By `performance.now()`. */
  readonly now: () => number;
}

/** A round has helped if it took no longer than this share of the one before. */
const helpfulShare = 0.8;

/**
 * Does something again as long as that helps: each time only the changes since the last round are left to do. Beside a writer
 * that makes as much work as is done it comes to no end, so it ends when the rounds become no shorter.
 * @returns how long the last round took, which is the length of the rest
 */
export async function repeatWhileItHelps(round: () => Promise<void>, options: RoundsOptions): Promise<number> {
  const { atMost, enoughMs, now } = options;
  let beforeMs = Number.POSITIVE_INFINITY;
  for (let count = 1; ; count++) {
    const startedAt = now();
    await round();
    const tookMs = now() - startedAt;
    if (tookMs <= enoughMs || tookMs > beforeMs * helpfulShare || count === atMost) return tookMs;
    beforeMs = tookMs;
  }
}
