import type { TrashRef } from '../indexes/trash-entry.ts';

/** In looks for entries that are due: an hour, if there is one every 30 seconds. */
const longestPause = 120;

interface Failure {
  readonly pause: number;
  left: number;
}

/** When what failed is tried again: at the next look, then after two more, four more, and so on. */
export class Retries {
  readonly #failures = new Map<TrashRef, Failure>();

  failed(ref: TrashRef): void {
    const before = this.#failures.get(ref);
    const pause = before === undefined ? 1 : Math.min(longestPause, before.pause * 2);
    this.#failures.set(ref, { pause, left: pause });
  }

  succeeded(ref: TrashRef): void {
    this.#failures.delete(ref);
  }

  /** One look: whose time has come. */
  due(): TrashRef[] {
    for (const failure of this.#failures.values()) failure.left -= 1;
    return [...this.#failures].flatMap(([ref, { left }]) => (left === 0 ? [ref] : []));
  }
}
