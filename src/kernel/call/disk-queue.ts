/** Longest time for a rescue in a closed queue. */
const rescueMs = 5_000;

/** A job that runs, or waits for a place. */
interface Job {
  /** Start by `performance.now()`. */
  startedMs: number;
  /** true: it runs even if the queue closes before it has begun. */
  readonly isOwed: boolean;
  /** Starts it. `ended` is called at its end, good or bad, before the caller is notified. */
  readonly begin: (ended: () => void) => void;
  /** Rejects the caller's promise. */
  readonly giveUp: (reason: Error) => void;
}

/**
 * A pool's share of the worker threads. libuv's threads are few and shared: a disk that hangs would take them all, and
 * stop Probe and every other pool. A queue never uses more than its share; other jobs wait here, in order, and delay
 * only callers of the same pool.
 *
 * A thread cannot be called back from a disk that hangs, but no caller has to wait for it: closing a queue rejects all
 * waiting callers. Jobs that had begun may still end at any time, so a closed queue never opens again.
 */
export class DiskQueue {
  readonly name: string;
  /** Called for every failure, also in sibling queues. */
  onFailure: ((error: unknown) => void) | undefined;
  readonly #limit: number;
  readonly #running = new Set<Job>();
  /** Jobs that run without a place. */
  readonly #watched = new Set<Job>();
  readonly #waiting: Job[] = [];
  readonly #beside: DiskQueue[] = [];
  #closedFor: Error | undefined;
  /** The queues of rescues. */
  #rescues: DiskQueue[] = [];
  #rescueTurn: Promise<void> = Promise.resolve();

  constructor(name: string, limit: number) {
    if (!Number.isInteger(limit) || limit < 1) throw new RangeError(`a queue needs at least one place, not ${limit}`);
    this.name = name;
    this.#limit = limit;
  }

  /** Makes another queue for the same disk, with separate places. It closes with this one. */
  beside(name: string, limit: number): DiskQueue {
    const queue = new DiskQueue(`${this.name} ${name}`, limit);
    queue.onFailure = (error) => this.onFailure?.(error);
    this.#beside.push(queue);
    if (this.#closedFor !== undefined) queue.close(this.#closedFor);
    return queue;
  }

  /**
   * Runs `work`, which may block one worker thread at a time. Never nest: `work` must not wait for this queue.
   * @param onLate gets the result if the queue was closed meanwhile, to release its resources
   * @throws the reason for which the queue is closed
   */
  run<T>(work: () => Promise<T>, onLate?: (result: T) => void): Promise<T> {
    return this.#do(work, onLate, (job) => this.#enter(job));
  }

  /** Waits for work that takes no worker thread, such as a program, as long as the queue is open. */
  watch<T>(work: () => Promise<T>): Promise<T> {
    return this.#do(work, undefined, (job) => this.#begin(job, this.#watched));
  }

  /**
   * Runs work that must be done in any case, such as close(2): in a closed queue, as soon as there is a place.
   * @returns resolves when `work` has ended, well or not, or at once if the queue is closed. Never rejects
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
   * Runs `work` in this queue. If the queue is closed, it gets a short try anyway, one rescue at a time: unmounting is
   * right even on a failed disk, and most of it needs no disk.
   * @throws the reason for which the queue is closed, if `work` takes too long or an earlier rescue hangs
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

  /** Rejects all waiting and all later jobs with this reason. */
  close(reason: Error): void {
    if (this.#closedFor !== undefined) return;
    this.#closedFor = reason;
    const waiting = this.#waiting.splice(0);
    this.#waiting.push(...waiting.filter(({ isOwed }) => isOwed));
    for (const job of [...waiting, ...this.#running, ...this.#watched]) job.giveUp(reason);
    for (const queue of this.#beside) queue.close(reason);
  }

  /** The reason for which it was closed. */
  get closedFor(): Error | undefined {
    return this.#closedFor;
  }

  /** True if no job runs or waits here, nor in sibling queues. */
  get isIdle(): boolean {
    const isBusy = this.#running.size > 0 || this.#waiting.length > 0 || this.#watched.size > 0;
    return !isBusy && [...this.#beside, ...this.#rescues].every(({ isIdle }) => isIdle);
  }

  /** Start of the oldest running job; undefined: none runs. */
  get busySinceMs(): number | undefined {
    // A set keeps the order in which jobs began.
    for (const { startedMs } of this.#running) return startedMs;
    return undefined;
  }

  /** The same for this queue and its siblings. */
  get anyBusySinceMs(): number | undefined {
    const all = [this.busySinceMs, ...this.#beside.map(({ anyBusySinceMs }) => anyBusySinceMs)];
    const known = all.filter((ms) => ms !== undefined);
    return known.length === 0 ? undefined : Math.min(...known);
  }

  /** Maximum of jobs that run at a time. */
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

/** Turns an exception of `work` before it returns a promise into a rejection. */
function promised<T>(work: () => Promise<T>): Promise<T> {
  try {
    return work();
  } catch (error) {
    return Promise.reject(error);
  }
}
