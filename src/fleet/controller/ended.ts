/** Time for which a deletion is remembered; Kubernetes repeats a deletion within minutes. */
const keepMs = 6 * 60 * 60_000;
/** Limit; the oldest are dropped: their repetition waits for all nodes. */
const maxEnded = 20_000;

/** Objects that their nodes have deleted: a repeated deletion need not wait for other nodes. */
export class EndedIds {
  readonly #ended = new Map<string, { readonly node: string; readonly atMs: number }>();
  readonly #now: () => number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  add(id: string, node: string): void {
    this.#ended.delete(id);
    this.#ended.set(id, { node, atMs: this.#now() });
    const [oldest] = this.#ended.keys();
    if (this.#ended.size > maxEnded && oldest !== undefined) this.#ended.delete(oldest);
  }

  /** The node that deleted the object recently. */
  by(id: string): string | undefined {
    const ended = this.#ended.get(id);
    return ended !== undefined && this.#now() - ended.atMs < keepMs ? ended.node : undefined;
  }
}
