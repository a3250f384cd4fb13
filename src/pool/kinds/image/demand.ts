/** Requests that are remembered: enough to tell a size that comes back from one that a program has computed. */
const rememberedRequests = 64;

/** The number of recent requests for each template. */
export class Demand {
  /** Names, the latest last. */
  readonly #requests: string[] = [];
  readonly #counts = new Map<string, number>();

  note(name: string): void {
    this.#requests.push(name);
    this.#counts.set(name, this.of(name) + 1);
    if (this.#requests.length <= rememberedRequests) return;
    const gone = this.#requests.shift();
    if (gone === undefined) return;
    const left = this.of(gone) - 1;
    if (left === 0) this.#counts.delete(gone);
    else this.#counts.set(gone, left);
  }

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  /**
   * True if a new template would be used more than one of those that are there. By two requests or more: of sizes that are
   * requested in turn none is better than the others, and each exchange costs a format.
   * @param present names, at least one
   */
  isWorthExchange(name: string, present: Iterable<string>): boolean {
    const lowest = Math.min(...[...present].map((each) => this.of(each)));
    return this.of(name) >= lowest + 2;
  }
}
