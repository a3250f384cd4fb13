/**
 * Reads and writes of a label, one after another: each change begins with what the one before it has left. After a write that
 * has failed, either state is stored, and the one in memory may be wrong.
 */
export class LabelTurns {
  readonly #readStored: () => Promise<void>;
  #isDoubtful = false;
  #last: Promise<unknown> = Promise.resolve();

  /** @param readStored reads the stored state into memory, and makes it durable */
  constructor(readStored: () => Promise<void>) {
    this.#readStored = readStored;
  }

  /** Does some work once all that was asked for before it has ended. The other methods are called within it. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async read(): Promise<void> {
    this.#isDoubtful = true;
    await this.#readStored();
    this.#isDoubtful = false;
  }

  /** From then on the state in memory is the stored one. */
  async settle(): Promise<void> {
    if (this.#isDoubtful) await this.read();
  }

  async write(work: () => Promise<void>): Promise<void> {
    this.#isDoubtful = true;
    await work();
    this.#isDoubtful = false;
  }
}
