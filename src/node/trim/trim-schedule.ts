import type { Pool } from '../../pool/pool.ts';
import type { Trimming } from '../../volume/trimming.ts';

const hourMs = 3600_000;
const intervalMs: Readonly<Record<Trimming, number>> = { off: Infinity, daily: 24 * hourMs, weekly: 168 * hourMs };
const first = { minMs: hourMs / 6, maxMs: hourMs };

export interface TrimScheduleOptions {
  /** When the driver started. */
  readonly startMs: number;
  /** From 0 to less than 1. */
  readonly random?: () => number;
}

/**
 * The times at which pools are trimmed. A pool is trimmed for the first time between 10 minutes and an hour after the start,
 * whatever its interval: the last time was not noted, a node that is rebooted every day must not wait for a week that
 * never comes, and a trim that finds nothing costs next to nothing.
 */
export class TrimSchedule {
  readonly #random: () => number;
  readonly #firstMs: number;
  readonly #nextMs = new Map<string, number>();

  constructor({ random = Math.random, startMs }: TrimScheduleOptions) {
    this.#random = random;
    // Not all nodes of a cluster at the same moment.
    this.#firstMs = startMs + first.minMs + (first.maxMs - first.minMs) * random();
  }

  /** The pool whose time has come first, if that of any has; from then on it is due again after its interval. */
  take<Due extends Pick<Pool, 'name' | 'trimming'>>(pools: readonly Due[], nowMs: number): Due | undefined {
    const dueMs = ({ name }: Due) => this.#nextMs.get(name) ?? this.#firstMs;
    const [pool] = pools
      .filter((each) => each.trimming !== 'off' && dueMs(each) <= nowMs)
      .sort((a, b) => dueMs(a) - dueMs(b));
    // Nor at the same hour for ever.
    if (pool !== undefined)
      this.#nextMs.set(pool.name, nowMs + intervalMs[pool.trimming] * (0.95 + this.#random() / 10));
    return pool;
  }
}
