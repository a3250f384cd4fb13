/** The reasons why things wait or fail. Each is reported once, until there is another one. */
export class LastReasons {
  readonly #reasons = new Map<string, string>();

  /** Notes a reason. @returns true if it is another one than before */
  isNew(what: string, reason: string): boolean {
    if (this.#reasons.get(what) === reason) return false;
    this.#reasons.set(what, reason);
    return true;
  }

  /** There is none any more: the same one is new again. */
  forget(what: string): void {
    this.#reasons.delete(what);
  }
}
