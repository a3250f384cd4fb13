/** How long something may take in a closed queue. */
const rescueMs = 5_000;

/** Work that is at work, or waits for a place. */
interface Job {
  /** Since when it is at work, by `performance.now()`. */
  startedMs: number;
  /** It is done even if the queue closes before it has begun. */
  readonly isOwed: boolean;
  /** Calls back at its end, good or bad, before anybody hears of it. */
  readonly begin: (ended: () => void) => void;
  /** Tells whoever waits for it that he waits in vain. */
  readonly giveUp: (reason: Error) => void;
}

/**
 * The way to the worker threads, one queue for each pool. libuv's threads are few and shared: a disk that hangs would
 * take them all, and Probe and every other pool with them. A queue never has more than its share in use; what comes
 * beyond that waits here, in order, and hurts only callers of the same pool.
 *
 * Nobody can call a thread back from a disk that hangs, but nobody has to wait for it: a queue that is closed lets all
 * go who wait. What was at work may still come to its end, at any time, so a closed queue never opens again.
 */
export class DiskQueue {
  readonly name: string;
  /** Hears of every failure, whoever it was of, in queues beside this one too. */
  onFailure: ((error: unknown) => void) | undefined;
  readonly #limit: number;
  readonly #running = new Set<Job>();
  /** At work without a place. */
  readonly #watched = new Set<Job>();
  readonly #waiting: Job[] = [];
  readonly #beside: DiskQueue[] = [];
  #closedFor: Error | undefined;
  /** Queues of things that were tried although this one is closed. */
  #rescues: DiskQueue[] = [];
  #rescueTurn: Promise<void> = Promise.resolve();

  constructor(name: string, limit: number) {
    if (!Number.isInteger(limit) || limit < 1) throw new RangeError(`a queue needs at least one place, not ${limit}`);
    this.name = name;
    this.#limit = limit;
  }

  /** Another queue for the same disk, with places of its own, which closes with this one. */
  beside(name: string, limit: number): DiskQueue {
    const queue = new DiskQueue(`${this.name} ${name}`, limit);
    queue.onFailure = (error) => this.onFailure?.(error);
    this.#beside.push(queue);
    if (this.#closedFor !== undefined) queue.close(this.#closedFor);
    return queue;
  }

  /**
   * Runs `work`, which may block one worker thread at a time. Never nest: work inside must not wait for the queue.
   * @param onLate gets the result if the queue was closed meanwhile: nobody else will, and it may hold something
   * @throws what the queue is closed for
   */
  run<T>(work: () => Promise<T>, onLate?: (result: T) => void): Promise<T> {
    return this.#do(work, onLate, (job) => this.#enter(job));
  }

  /** Waits for something that takes no worker thread, a program say, but no longer than the queue is open. */
  watch<T>(work: () => Promise<T>): Promise<T> {
    return this.#do(work, undefined, (job) => this.#begin(job, this.#watched));
  }

  /**
   * Runs what must be done in any case, a close(2) say: in a closed queue, as soon as there is a place.
   * @returns resolves when it is done, well or not, or at once if the queue is closed. Never rejects
   */
  settle(work: () => Promise<unknown>): Promise<void> {
    return new Promise((resolve) => {
      const begin: Job['begin'] = (ended) => {
        const done = () => {
          ended();
          resolve();
        };
        promised(work).then(done, done);
      };
      this.#enter({ startedMs: 0, isOwed: true, begin, giveUp: () => resolve() });
      if (this.#closedFor !== undefined) resolve();
    });
  }

  /**
   * Does something in this queue; in one that is closed, tries it all the same for a moment, one thing at a time: to undo
   * what is mounted is right whatever the disk is like, and most of it needs no disk.
   * @throws what the queue is closed for, if it takes too long or something before it hangs
   */
  async rescue<T>(work: (queue: DiskQueue) => Promise<T>): Promise<T> {
    const reason = this.#closedFor;
    if (reason === undefined) return work(this);
    const turn = this.#rescueTurn.then(async () => {
      this.#rescues = this.#rescues.filter(({ isIdle }) => !isIdle);
      if (this.#rescues.length > 0) throw reason;
      const queue = new DiskQueue(`${this.name} rescue`, 1);
      this.#rescues.push(queue);
      const timer = setTimeout(() => queue.close(reason), rescueMs);
      try {
        return await work(queue);
      } finally {
        clearTimeout(timer);
      }
    });
    this.#rescueTurn = turn.then(
      () => undefined,
      () => undefined,
    );
    return turn;
  }

  /** All who wait here are let go with this, and whoever comes gets it too. */
  close(reason: Error): void {
    if (this.#closedFor !== undefined) return;
    this.#closedFor = reason;
    const waiting = this.#waiting.splice(0);
    this.#waiting.push(...waiting.filter(({ isOwed }) => isOwed));
    for (const job of [...waiting, ...this.#running, ...this.#watched]) job.giveUp(reason);
    for (const queue of this.#beside) queue.close(reason);
  }

  /** What it was closed for. */
  get closedFor(): Error | undefined {
    return this.#closedFor;
  }

  /** Whether anything is still at work here, waited for or not; in queues beside it too. */
  get isIdle(): boolean {
    const isBusy = this.#running.size > 0 || this.#waiting.length > 0 || this.#watched.size > 0;
    return !isBusy && [...this.#beside, ...this.#rescues].every(({ isIdle }) => isIdle);
  }

  /** Since when the job that has a place for the longest time has it; undefined: none has one. */
  get busySinceMs(): number | undefined {
    // A set keeps the order in which jobs began.
    for (const { startedMs } of this.#running) return startedMs;
    return undefined;
  }

  /** How much runs at a time. */
  get places(): number {
    return this.#limit;
  }

  get running(): number {
    return this.#running.size;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  #do<T>(work: () => Promise<T>, onLate: ((result: T) => void) | undefined, start: (job: Job) => void): Promise<T> {
    if (this.#closedFor !== undefined) return Promise.reject(this.#closedFor);
    return new Promise((resolve, reject) => {
      let isGivenUp = false;
      const begin: Job['begin'] = (ended) => {
        promised(work).then(
          (result) => {
            ended();
            if (isGivenUp) onLate?.(result);
            else resolve(result);
          },
          (error: unknown) => {
            ended();
            this.onFailure?.(error);
            reject(error);
          },
        );
      };
      const giveUp = (reason: Error) => {
        isGivenUp = true;
        reject(reason);
      };
      start({ startedMs: 0, isOwed: false, begin, giveUp });
    });
  }

  #enter(job: Job): void {
    if (this.#running.size < this.#limit) this.#begin(job, this.#running);
    else this.#waiting.push(job);
  }

  #begin(job: Job, among: Set<Job>): void {
    job.startedMs = performance.now();
    among.add(job);
    job.begin(() => {
      among.delete(job);
      const next = among === this.#running ? this.#waiting.shift() : undefined;
      if (next !== undefined) this.#begin(next, this.#running);
    });
  }
}

/** Work that fails before it has begun fails as any other. */
function promised<T>(work: () => Promise<T>): Promise<T> {
  try {
    return work();
  } catch (error) {
    return Promise.reject(error);
  }
}
