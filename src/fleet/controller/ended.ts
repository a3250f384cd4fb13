/** How long it is remembered; Kubernetes repeats a deletion within minutes. */
const keepMs = 6 * 60 * 60_000;
/** The oldest go: their repetition waits for all nodes, as it did before. */
const mostEnded = 20_000;

/** What the node that had it has deleted: a repetition need not wait for nodes that have nothing to do with it. */
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
    if (this.#ended.size > mostEnded && oldest !== undefined) this.#ended.delete(oldest);
  }

  /** The node that has deleted it not long ago. */
  by(id: string): string | undefined {
    const ended = this.#ended.get(id);
    return ended !== undefined && this.#now() - ended.atMs < keepMs ? ended.node : undefined;
  }
}
