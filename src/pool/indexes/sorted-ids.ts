/** Ids in order, so that a page of many takes no longer than a page of few. */
export class SortedIds<Id extends string> {
  readonly #ids: Id[];

  constructor(ids: Iterable<Id>) {
    this.#ids = [...new Set(ids)].sort();
  }

  add(id: Id): void {
    const index = this.#indexOf(id);
    if (this.#ids[index] !== id) this.#ids.splice(index, 0, id);
  }

  delete(id: Id): void {
    const index = this.#indexOf(id);
    if (this.#ids[index] === id) this.#ids.splice(index, 1);
  }

  /** The ids greater than this one; undefined: all. Nothing may come or go meanwhile. */
  *after(id: Id | undefined): Generator<Id, void, void> {
    const first = id === undefined ? 0 : this.#indexOf(id);
    for (let index = first; index < this.#ids.length; index++) {
      const each = this.#ids[index];
      if (each !== undefined && each !== id) yield each;
    }
  }

  /** The index of the first that is not smaller. */
  #indexOf(id: Id): number {
    let low = 0;
    let high = this.#ids.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const there = this.#ids[middle];
      if (there !== undefined && there < id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
