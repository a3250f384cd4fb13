import { Unavailable } from '../../../../../volume/errors.ts';

export interface HoldOptions<T> {
  take(): Promise<T>;
  /** Called when it is not in use any more. Done again after it has failed. */
  giveBack(thing: T): Promise<void>;
  /** The time for which it is kept for the next user. */
  readonly lingerMs: number;
  /** The greatest age, if it is used all the time. */
  readonly longestMs: number;
  /** Its name, for messages. */
  readonly what: string;
}

interface Hold<T> {
  readonly thing: T;
  readonly takenAtMs: number;
  /** Each is newer than the one before. */
  readonly number: number;
  users: number;
  /** The hold was about to be given back: it is not used any more, even if that failed. */
  isSpent: boolean;
  /** Called when the last user has gone. */
  onIdle: () => void;
}

/**
 * A thing of which there is only one at a time, with the state of the moment at which it was taken, and at a cost as long as
 * it is held. Each user has it for a moment, again and again. A user that needs a newer one waits for the uses that have
 * begun, and no other use begins before. So a user that stops in between does not keep it, and no user waits for long.
 */
export class SharedHold<T> {
  readonly #options: HoldOptions<T>;
  #hold: Hold<T> | undefined;
  #count = 0;
  #isClosed = false;
  #timer: NodeJS.Timeout | undefined;
  /** Takes and gives back, one after the other. */
  #turns: Promise<void> = Promise.resolve();

  constructor(options: HoldOptions<T>) {
    this.#options = options;
  }

  /** The number of the one taken last: a higher one is taken after this call. */
  get lastNumber(): number {
    return this.#count;
  }

  /** @param after a newer one than this @throws what `take` throws */
  async use<R>(after: number, work: (thing: T, number: number) => Promise<R>): Promise<R> {
    this.#requireOpen();
    const hold = await this.#inTurn(() => this.#enter(after));
    try {
      return await work(hold.thing, hold.number);
    } finally {
      this.#leave(hold);
    }
  }

  /** Gives it back once its users are done; there are no new ones. */
  async close(): Promise<void> {
    this.#stop();
    await this.#inTurn(() => this.#giveBack());
  }

  /** Does not wait, and gives nothing back: for a disk that does not answer. @returns the held thing */
  abandon(): T | undefined {
    this.#stop();
    return this.#hold?.thing;
  }

  async #enter(after: number): Promise<Hold<T>> {
    this.#requireOpen();
    clearTimeout(this.#timer);
    const { longestMs } = this.#options;
    const present = this.#hold;
    const isOld = present !== undefined && performance.now() - present.takenAtMs >= longestMs;
    const isUsable = present?.isSpent !== true;
    if (present !== undefined && (!isUsable || isOld || present.number <= after)) await this.#giveBack();
    this.#hold ??= await this.#take();
    this.#hold.users++;
    return this.#hold;
  }

  #requireOpen(): void {
    if (this.#isClosed) throw new Unavailable(`${this.#options.what}: the pool is being closed; try again.`);
  }

  async #take(): Promise<Hold<T>> {
    const number = ++this.#count;
    const takenAtMs = performance.now();
    return { thing: await this.#options.take(), takenAtMs, number, users: 0, isSpent: false, onIdle: () => undefined };
  }

  #leave(hold: Hold<T>): void {
    if (--hold.users > 0) return;
    hold.onIdle();
    this.#giveBackLater(hold, this.#options.lingerMs);
  }

  #giveBackLater(hold: Hold<T>, delayMs: number): void {
    if (this.#isClosed || hold !== this.#hold) return;
    clearTimeout(this.#timer);
    const giveBack = () => this.#inTurn(async () => (hold.users === 0 ? this.#giveBack(hold) : undefined));
    const again = () => this.#giveBackLater(hold, this.#options.longestMs);
    this.#timer = setTimeout(() => void giveBack().catch(again), delayMs).unref();
  }

  async #giveBack(only = this.#hold): Promise<void> {
    const hold = this.#hold;
    if (hold === undefined || hold !== only) return;
    if (hold.users > 0) {
      await new Promise<void>((resolve) => {
        hold.onIdle = resolve;
      });
    }
    hold.isSpent = true;
    await this.#options.giveBack(hold.thing);
    this.#hold = undefined;
  }

  #stop(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #inTurn<R>(work: () => Promise<R>): Promise<R> {
    const turn = this.#turns.then(work);
    this.#turns = turn.then(
      () => undefined,
      () => undefined,
    );
    return turn;
  }
}
