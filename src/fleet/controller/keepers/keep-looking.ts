import type { Logger } from 'pino';
import { pause } from '../../../volume/flow/pause.ts';

/** The looks of a keeper. */
export interface Looking {
  /** The longest interval. */
  readonly lookMs: number;
  /** A look that fails is done again at the next one. */
  look(): Promise<void>;
  readonly log: Pick<Logger, 'warn'>;
  /** The words of the log for a look that fails. */
  readonly failed: string;
}

/**
 * Looks until the signal is aborted, at random intervals, so that the replicas do not look at the same time.
 * @param wait ends early when there is something to look at
 */
export async function keepLooking(
  signal: AbortSignal,
  { failed, log, look, lookMs }: Looking,
  wait: (ms: number, signal: AbortSignal) => Promise<void> = pause,
): Promise<void> {
  for (;;) {
    await wait(intervalMs(lookMs), signal);
    if (signal.aborted) return;
    await look().catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : 'unknown';
      log.warn({ reason }, failed);
    });
  }
}

/** @param longestMs the shortest is half of it */
export function intervalMs(longestMs: number): number {
  return longestMs * (0.5 + Math.random() / 2);
}
