import type { DriverProcess } from './driver-process.ts';

/** Between two collections of garbage there are tens of milliseconds, and between a maximum and its end at least one. */
const intervalMs = 3;

/** Looks at a driver's anonymous memory all the time, for the kernel keeps no maximum of it. */
export class PeakWatch implements Disposable {
  readonly #timer: NodeJS.Timeout;
  #peakBytes = 0;

  constructor(driver: DriverProcess) {
    this.#timer = setInterval(() => {
      this.#peakBytes = Math.max(this.#peakBytes, driver.anonymousBytes());
    }, intervalMs);
  }

  /** The most that was seen so far. */
  get anonymousBytes(): number {
    return this.#peakBytes;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
