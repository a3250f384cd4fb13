/** A move that waits for its turn. */
interface Waiting {
  readonly isUrgent: boolean;
  readonly begin: () => void;
}

/**
 * The moves that read a node at a time. A move takes its turn before it leaves anything there: one that was fenced and could not be read
 * would keep its pod waiting for all before it.
 */
export class ReadTurns {
  readonly #max: number;
  readonly #waiting: Waiting[] = [];
  #taken = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** The next move has to wait. */
  get areTaken(): boolean {
    return this.#taken >= this.#max;
  }

  /**
   * Waits for a turn.
   * @param isUrgent the pod of the volume has ended: it comes before all that are copied in use
   * @returns ends it
   * @throws the reason of the signal
   */
  async take(isUrgent: boolean, signal: AbortSignal): Promise<Disposable> {
    signal.throwIfAborted();
    if (this.areTaken) await this.#wait(isUrgent, signal);
    else this.#taken++;
    let isHeld = true;
    return {
      [Symbol.dispose]: () => {
        if (isHeld) this.#next();
        isHeld = false;
      },
    };
  }

  #wait(isUrgent: boolean, signal: AbortSignal): Promise<void> {
    const turn = Promise.withResolvers<void>();
    const waiting: Waiting = {
      isUrgent,
      begin: () => {
        signal.removeEventListener('abort', giveUp);
        turn.resolve();
      },
    };
    const giveUp = () => {
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      turn.reject(signal.reason);
    };
    signal.addEventListener('abort', giveUp, { once: true });
    const first = this.#waiting.findIndex((other) => !other.isUrgent);
    this.#waiting.splice(isUrgent && first >= 0 ? first : this.#waiting.length, 0, waiting);
    return turn.promise;
  }

  /** The turn goes on to another move, if one waits. */
  #next(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#taken--;
    else next.begin();
  }
}
