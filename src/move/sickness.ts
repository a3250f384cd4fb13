/** Failures in a row, as a move is tried again and again. A copy that goes on for that time between two of them ends the row. */
export class Sickness {
  readonly #timeoutMs: number;
  #sinceMs: number | undefined;
  #lastMs = 0;
  #copiedBytes = 0n;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** @param copiedBytes by all tries @returns true if the row has lasted too long; the next failure begins another one */
  failed(nowMs: number, copiedBytes: bigint): boolean {
    const hasWorked = copiedBytes > this.#copiedBytes && nowMs - this.#lastMs >= this.#timeoutMs;
    if (hasWorked) this.#sinceMs = undefined;
    this.#lastMs = nowMs;
    this.#copiedBytes = copiedBytes;
    this.#sinceMs ??= nowMs;
    if (nowMs - this.#sinceMs < this.#timeoutMs) return false;
    this.#sinceMs = undefined;
    return true;
  }
}
