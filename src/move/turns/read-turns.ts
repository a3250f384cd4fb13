/** A move that waits for its turn. */
interface Waiting {
  readonly isUrgent: boolean;
  readonly begin: () => void;
}

/** The copies at a time between two pools of a node, or of snapshots to one of them: each takes memory, and time of their disks. */
export const copiesAtATime = 4;

/** Turns for each node or pool: one that hangs keeps no moves of others back. */
export class TurnsPerPlace {
  readonly #max: number;
  readonly #turns = new Map<string, ReadTurns>();

  constructor(max: number) {
    this.#max = max;
  }

  at(place: string): ReadTurns {
    const turns = this.#turns.get(place) ?? new ReadTurns(this.#max);
    this.#turns.set(place, turns);
    return turns;
  }
}

/**
 * The moves at a time that read a node, or copy to a pool. A move takes its turn before it leaves anything there: one that was
 * fenced and could not be read would keep its pod waiting for all before it.
 */
export class ReadTurns {
  readonly #max: number;
  /** The limit of moves whose volumes are in use: the others, whose pods wait, need not wait for one of these to end. */
  readonly #maxInUse: number;
  readonly #waiting: Waiting[] = [];
  #taken = 0;

  constructor(max: number) {
    this.#max = max;
    this.#maxInUse = Math.ceil((max * 2) / 3);
  }

  /** The next move has to wait. @param isUrgent as in `take` */
  areTaken(isUrgent: boolean): boolean {
    return this.#taken >= (isUrgent ? this.#max : this.#maxInUse);
  }

  /**
   * Waits for a turn.
   * @param isUrgent the pod of the volume has ended: it comes before all that are copied in use
   * @returns ends it
   * @throws the reason of the signal
   */
  async take(isUrgent: boolean, signal: AbortSignal): Promise<Disposable> {
    signal.throwIfAborted();
    if (this.areTaken(isUrgent)) await this.#wait(isUrgent, signal);
    else this.#taken++;
    return this.#turn();
  }

  /** A turn for a move that has lost the one that it had, and that its pod waits for. */
  takeAgain(): Disposable {
    this.#taken++;
    return this.#turn();
  }

  #turn(): Disposable {
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

  /** The turn goes on to another move, if one waits that may have it. */
  #next(): void {
    this.#taken--;
    const [next] = this.#waiting;
    if (next === undefined || this.areTaken(next.isUrgent)) return;
    this.#waiting.shift();
    this.#taken++;
    next.begin();
  }
}
