import { Unavailable } from '../../volume/errors.ts';

export interface PlacesOptions {
  /** The number of works at a time. */
  readonly max: number;
  /** The number of callers that may wait for a place. */
  readonly maxWaiting: number;
  /** The longest that one of them waits. */
  readonly waitMs: number;
}

/** Lets a few works run at a time. More wait for a place for a while, in their order. */
export class Places {
  readonly #options: PlacesOptions;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(options: PlacesOptions) {
    this.#options = options;
  }

  /**
   * @param gone the caller waits no more
   * @throws Unavailable if too many wait, or no place has come free in time
   */
  async run<T>(gone: AbortSignal, work: () => Promise<T>): Promise<T> {
    if (this.#running < this.#options.max) this.#running++;
    else await this.#place(gone);
    try {
      return await work();
    } finally {
      // The place of one that ends is the next one's.
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }

  #place(gone: AbortSignal): Promise<void> {
    const { maxWaiting, waitMs } = this.#options;
    const busy = () => new Unavailable(`${this.#running} other requests for the fleet are in progress; try again.`);
    if (gone.aborted || this.#waiting.length >= maxWaiting) return Promise.reject(busy());
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1);
        clearTimeout(timer);
        gone.removeEventListener('abort', leave);
        reject(busy());
      };
      const enter = () => {
        clearTimeout(timer);
        gone.removeEventListener('abort', leave);
        resolve();
      };
      const timer = setTimeout(leave, waitMs);
      gone.addEventListener('abort', leave);
      this.#waiting.push(enter);
    });
  }
}
