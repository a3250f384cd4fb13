/**
 * Failures in a row, as a move is tried again and again. A copy that goes on for that time between two of them ends the row, and so
 * does a copy of a tree that comes further than ever before: an end of its fence would throw away all of it.
 */
export class Sickness {
  readonly #timeoutMs: number;
  #sinceMs: number | undefined;
  #lastMs = 0;
  #copiedBytes = 0n;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** The next failure begins another row. */
  restart(): void {
    this.#sinceMs = undefined;
  }

  /** @param copiedBytes by all tries @param isFurther `Reached.takeFurther` @returns true if the row has lasted too long; the next failure begins another one */
  failed(nowMs: number, copiedBytes: bigint, isFurther: boolean): boolean {
    const hasWorked = copiedBytes > this.#copiedBytes && nowMs - this.#lastMs >= this.#timeoutMs;
    if (hasWorked || isFurther) this.restart();
    this.#lastMs = nowMs;
    this.#copiedBytes = copiedBytes;
    this.#sinceMs ??= nowMs;
    if (nowMs - this.#sinceMs < this.#timeoutMs) return false;
    this.restart();
    return true;
  }
}
