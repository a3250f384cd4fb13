import { setTimeout as delay } from 'node:timers/promises';
import type { Pace } from './copy.ts';

/** The average over the time since it began, so that a slow stretch may be made up for, but by no more than a second. */
export class BytesPerSecond implements Pace {
  readonly #limit: number | undefined;
  #dueMs = 0;

  /** @param limit undefined: as fast as it goes */
  constructor(limit: bigint | undefined) {
    this.#limit = limit === undefined ? undefined : Number(limit);
  }

  async took(bytes: bigint, signal: AbortSignal): Promise<void> {
    if (this.#limit === undefined) return;
    const nowMs = performance.now();
    this.#dueMs = Math.max(this.#dueMs, nowMs - 1000) + (Number(bytes) / this.#limit) * 1000;
    const waitMs = this.#dueMs - nowMs;
    if (waitMs > 1) await delay(waitMs, undefined, { signal });
  }
}
