/** Longest time for a rescue in a closed queue. */
const rescueMs = 5_000;

/** A job that runs, or waits for a place. */
interface Job {
  /** By `performance.now()`. */
  readonly enteredMs: number;
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
  readonly #shared: SharedPlaces | undefined;
  readonly #running = new Set<Job>();
  /** Jobs that run without a place. */
  readonly #watched = new Set<Job>();
  readonly #waiting: Job[] = [];
  readonly #beside: DiskQueue[] = [];
  #closedFor: Error | undefined;
  /** The queues of rescues. */
  #rescues: DiskQueue[] = [];
  #rescueTurn: Promise<void> = Promise.resolve();

  /** @param shared places that this queue needs beside its own, for each job */
  constructor(name: string, limit: number, shared?: SharedPlaces) {
    if (!Number.isInteger(limit) || limit < 1) throw new RangeError(`a queue needs at least one place, not ${limit}`);
    this.name = name;
    this.#limit = limit;
    this.#shared = shared;
  }

  /**
   * Makes another queue for the same disk, with separate places. It closes with this one.
   * @param isUrgent its jobs never wait for other disks, nor count among theirs
   */
  beside(name: string, limit: number, isUrgent = false): DiskQueue {
    const queue = new DiskQueue(`${this.name} ${name}`, limit, isUrgent ? undefined : this.#shared);
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
      this.#enter({ enteredMs: performance.now(), startedMs: 0, isOwed: true, begin, giveUp: () => resolve() });
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
    return oldest([this.busySinceMs, ...this.#beside.map(({ anyBusySinceMs }) => anyBusySinceMs)]);
  }

  /** Entry of the oldest waiting job, if not one runs: other queues have all shared places. Sibling queues included. */
  get starvedSinceMs(): number | undefined {
    const own = this.#running.size === 0 ? this.#waiting[0]?.enteredMs : undefined;
    return oldest([own, ...this.#beside.map(({ starvedSinceMs }) => starvedSinceMs)]);
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
      start({ enteredMs: performance.now(), startedMs: 0, isOwed: false, begin, giveUp });
    });
  }

  #enter(job: Job): void {
    this.#waiting.push(job);
    this.#fill();
  }

  /** Begins the jobs that have a place. */
  readonly #fill = (): void => {
    while (this.#waiting.length > 0 && this.#running.size < this.#limit) {
      if (this.#shared?.take(this.#running.size === 0, this.#fill) === false) return;
      const job = this.#waiting.shift();
      if (job !== undefined) this.#begin(job, this.#running);
    }
  };

  #begin(job: Job, among: Set<Job>): void {
    job.startedMs = performance.now();
    among.add(job);
    job.begin(() => {
      among.delete(job);
      if (among !== this.#running) return;
      this.#shared?.give();
      this.#fill();
    });
  }
}

/**
 * Worker threads that many queues share, so that each can have a queue and they still cannot take more threads than
 * there are for them. A job of a disk that hangs keeps its place, also after its queue was closed, as it keeps its thread.
 */
export class SharedPlaces {
  readonly #kept: number;
  #free: number;
  /** In the order in which they came. */
  readonly #waiting = new Set<() => void>();

  /** @param kept places for queues that have none: those that hang cannot take the others' first ones */
  constructor(count: number, kept: number) {
    this.#free = count;
    this.#kept = kept;
  }

  /** @param isFirst the queue has no place @returns false: there is none, and `retry` is called when one is free */
  take(isFirst: boolean, retry: () => void): boolean {
    if (this.#free > (isFirst ? 0 : this.#kept)) {
      this.#free -= 1;
      return true;
    }
    this.#waiting.add(retry);
    return false;
  }

  give(): void {
    this.#free += 1;
    // Each may come again at the end.
    for (const retry of [...this.#waiting]) {
      if (this.#free === 0) return;
      this.#waiting.delete(retry);
      retry();
    }
  }
}

function oldest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/** Turns an exception of `work` before it returns a promise into a rejection. */
function promised<T>(work: () => Promise<T>): Promise<T> {
  try {
    return work();
  } catch (error) {
    return Promise.reject(error);
  }
}
