import { diskFaultOf } from '../../kernel/block/disk-fault.ts';
import { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { Unavailable } from '../../volume/errors.ts';
import type { Pool } from '../pool.ts';
import { PoolQuarantined, reasonIn, reasonToGiveUp } from '../quarantine.ts';
import { Question } from './question.ts';
import { SickPool } from './sick-pool.ts';

/**
 * Opens a configured pool; only the registry knows its kind (`kinds.ts`). Its blocking calls take the queue. Once
 * `stopping` is aborted the pool is not wanted any more, and nothing is waited for.
 */
export type PoolOpener = (queue: DiskQueue, stopping: AbortSignal) => Promise<Pool>;

/** Where a supervisor says what became of its pool. Structurally a pino logger. */
export interface SupervisorLog {
  info(fields: Record<string, unknown>, message: string): void;
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
}

export interface SupervisorOptions {
  readonly name: string;
  readonly opener: PoolOpener;
  /** A new queue for the pool each time that it is opened: one that was closed is of no use. */
  readonly makeQueue: () => DiskQueue;
  /** A disk that has not answered for this time is sick. */
  readonly sickAfterMs: number;
  readonly log: SupervisorLog;
}

export type PoolState =
  | { readonly state: 'opening' }
  | { readonly state: 'open'; readonly pool: Pool }
  /** It has never been open; it is tried again. */
  | { readonly state: 'failed'; readonly error: Unavailable }
  | { readonly state: 'quarantined'; readonly pool: SickPool; readonly error: PoolQuarantined };

/** The pause between two looks of a supervisor at its clock. No disk is asked. */
const tickMs = 1_000;

/** A pool that takes longer to open, an XFS with a long log say, is as good as one that cannot be opened. */
const longOpeningMs = 30_000;

/**
 * One configured pool, from its opening to the end, whatever becomes of its disk. The disk is asked how it is by a small
 * durable write, now and then, and at once if a call takes long or fails with an I/O error. If it does not answer, or
 * answers with an error, the pool is given up as if the driver had been killed: callers get the reason, the other pools
 * notice nothing. When the disk is well, and nothing is in progress any more that was begun before, the pool is opened again,
 * as after a start. So a call leaves behind the same as a crash (test/crash).
 */
export class PoolSupervisor {
  readonly #options: SupervisorOptions;
  readonly #healthQueue: DiskQueue;
  /** Queues that were closed while something was in progress in them. */
  #leftQueues: DiskQueue[] = [];
  #state: PoolState = { state: 'opening' };
  #timer: NodeJS.Timeout | undefined;
  #question: Question | undefined;
  #answeredMs = performance.now();
  readonly #begunMs = performance.now();
  #isSuspect = false;
  #isOpening = false;
  #triedMs = 0;
  readonly #stopping = new AbortController();

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#healthQueue = new DiskQueue(`${options.name} health`, 1);
  }

  get state(): PoolState {
    return this.#state;
  }

  /** True if the state of the pool is known; one that takes too long to open is sick. */
  get isSettled(): boolean {
    return this.#state.state !== 'opening' || performance.now() - this.#begunMs > longOpeningMs;
  }

  /** Opens the pool for the first time. @returns why it failed */
  async open(): Promise<unknown> {
    this.#timer = setInterval(() => this.#tick(), Math.min(tickMs, this.#options.sickAfterMs / 4)).unref();
    return this.#tryToOpen();
  }

  /** The driver is stopping: a pool that is not open yet need not be. One that is open is watched until the end. */
  stopOpening(): void {
    this.#stopping.abort();
  }

  /** Lets the pool go: of one that is sick, nothing is waited for. */
  async stop(): Promise<void> {
    this.stopOpening();
    clearInterval(this.#timer);
    if (this.#state.state === 'open') await this.#state.pool.close();
  }

  #tick(): void {
    if (this.#state.state === 'open') this.#watch(this.#state.pool, performance.now());
    else if (this.#state.state !== 'opening') this.#tryAgain(performance.now());
  }

  #watch(pool: Pool, nowMs: number): void {
    const { sickAfterMs } = this.#options;
    if (this.#question !== undefined) {
      const silent = this.#question.silentFor(sickAfterMs);
      if (silent !== undefined) {
        this.#giveUp(pool, `${silent} has not answered for ${Math.round(sickAfterMs / 1000)} s`);
      }
      return;
    }
    // A program in a queue beside it, LVM say, may wait for a disk that nothing else asks.
    const busyMs = nowMs - (pool.queue.anyBusySinceMs ?? nowMs);
    const silentMs = nowMs - this.#answeredMs;
    const isSlow = busyMs > sickAfterMs / 8 && silentMs > sickAfterMs / 8;
    if (this.#isSuspect || isSlow || silentMs > 2 * sickAfterMs) void this.#ask(pool);
  }

  /** Only when nothing that was begun before is in progress: it might still have an effect. */
  #tryAgain(nowMs: number): void {
    if (this.#isOpening || this.#stopping.signal.aborted || nowMs - this.#triedMs < this.#options.sickAfterMs / 4)
      return;
    this.#leftQueues = this.#leftQueues.filter(({ isIdle }) => !isIdle);
    if (this.#leftQueues.length === 0 && this.#healthQueue.isIdle) void this.#tryToOpen();
  }

  async #ask(pool: Pool): Promise<void> {
    const question = new Question();
    this.#question = question;
    this.#isSuspect = false;
    try {
      await pool.checkHealth(this.#healthQueue, question);
      this.#answeredMs = performance.now();
    } catch (error) {
      const reason = reasonToGiveUp(this.#options.name, error);
      if (reason !== undefined && this.#isAt(pool)) this.#giveUp(pool, reason);
      else this.#options.log.warn({ pool: this.#options.name, err: error }, 'cannot find out how a pool is');
      this.#answeredMs = performance.now();
    } finally {
      if (this.#question === question) this.#question = undefined;
    }
  }

  #giveUp(pool: Pool, reason: string): void {
    const { log, name } = this.#options;
    const error = new PoolQuarantined(name, new Date().toISOString(), reason);
    this.#state = { state: 'quarantined', pool: new SickPool(pool, error), error };
    this.#question = undefined;
    this.#triedMs = performance.now();
    pool.queue.close(error);
    this.#leftQueues.push(pool.queue);
    pool.abandon();
    log.error({ pool: name, reason }, 'a pool is in quarantine: its disk is sick; the others work without it');
  }

  async #tryToOpen(): Promise<unknown> {
    const { makeQueue, name, log, opener } = this.#options;
    const before = this.#state;
    const queue = makeQueue();
    let pool: Pool | undefined;
    this.#isOpening = true;
    try {
      pool = await opener(queue, this.#stopping.signal);
      if (before.state === 'quarantined') await pool.checkHealth(this.#healthQueue, new Question());
      this.#answeredMs = performance.now();
      this.#isSuspect = false;
      pool.queue.onFailure = (error) => {
        this.#isSuspect ||= diskFaultOf(error) !== undefined;
      };
      if (this.#stopping.signal.aborted) await pool.close();
      else this.#state = { state: 'open', pool };
      if (before.state !== 'opening') log.info({ pool: name }, 'the disk of a pool is well again: the pool is open');
      return undefined;
    } catch (error) {
      for (const left of pool === undefined ? [queue] : [queue, pool.queue]) {
        left.close(new Unavailable(`pool ${name} could not be opened.`));
        this.#leftQueues.push(left);
      }
      pool?.abandon();
      this.#fail(before, error);
      return error;
    } finally {
      this.#isOpening = false;
      this.#triedMs = performance.now();
    }
  }

  #fail(before: PoolState, error: unknown): void {
    const { name, log } = this.#options;
    // It says nothing of the pool.
    if (this.#stopping.signal.aborted) return;
    const words = (error instanceof Error ? error.message : String(error)).replace(`pool ${name}: `, '');
    if (before.state === 'quarantined') {
      const reason = diskFaultOf(error) ?? reasonIn(name, error);
      if (reason === before.error.reason) return;
      const still = new PoolQuarantined(name, before.error.since, reason);
      this.#state = { state: 'quarantined', pool: before.pool.because(still), error: still };
      log.error({ pool: name, reason }, 'a pool stays in quarantine');
      return;
    }
    const failure = new Unavailable(`pool ${name} could not be opened: ${words}`);
    if (before.state === 'failed' && before.error.message !== failure.message) {
      log.error({ pool: name, reason: words }, 'a pool still cannot be opened');
    }
    this.#state = { state: 'failed', error: failure };
  }

  #isAt(pool: Pool): boolean {
    return this.#state.state === 'open' && this.#state.pool === pool;
  }
}
