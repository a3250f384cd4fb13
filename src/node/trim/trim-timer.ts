import { setTimeout as pause } from 'node:timers/promises';
import type { Pool, TrimOptions } from '../../pool/pool.ts';
import type { Pools } from '../../pool/pools.ts';
import { PoolQuarantined } from '../../pool/quarantine.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import type { VolumeId } from '../../volume/id.ts';
import { TrimSchedule } from './trim-schedule.ts';

/** Where the timer says what went wrong. Structurally a pino logger. */
export interface TrimLog {
  warn(fields: Record<string, unknown>, message: string): void;
}

export interface TrimTimerOptions {
  readonly pools: Pick<Pools, 'all'>;
  /** Shared with the services: no call for a volume meets its trim. */
  readonly objects: ObjectQueue;
  readonly log: TrimLog;
  readonly schedule?: TrimSchedule;
  /** The pause between two looks of the timer at its clock. */
  readonly tickMs?: number;
}

/** Between two slices the disk belongs to the pods. */
const pauseMs = 100;

/** Trims mounted filesystems of all open pools, one after another. */
export class TrimTimer {
  readonly #options: TrimTimerOptions;
  readonly #schedule: TrimSchedule;
  readonly #timer: NodeJS.Timeout;
  readonly #stopping = new AbortController();
  #pass: Promise<void> | undefined;

  constructor(options: TrimTimerOptions) {
    const { schedule = new TrimSchedule({ startMs: performance.now() }), tickMs = 60_000 } = options;
    this.#options = options;
    this.#schedule = schedule;
    this.#timer = setInterval(() => this.#tick(performance.now()), tickMs).unref();
  }

  /** Begins nothing more, and waits for the slice in progress. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stopping.abort();
    await this.#pass;
  }

  #tick(nowMs: number): void {
    if (this.#pass !== undefined) return;
    const pool = this.#schedule.take(this.#options.pools.all(), nowMs);
    if (pool === undefined) return;
    this.#pass = trimPool(pool, this.#options, this.#stopping.signal).finally(() => {
      this.#pass = undefined;
    });
  }
}

/** Trims all volumes of a pool that are mounted. Never rejects: a failure is logged, and tried again the next time. */
export async function trimPool(
  pool: Pool,
  { objects, log }: Pick<TrimTimerOptions, 'objects' | 'log'>,
  signal: AbortSignal,
): Promise<void> {
  for (const { id } of await pool.list(undefined, undefined).catch(() => [])) {
    if (signal.aborted) return;
    try {
      await trimVolume(pool, id, objects, signal);
    } catch (error) {
      if (signal.aborted || error instanceof PoolQuarantined) return;
      log.warn({ pool: pool.name, volume_id: id, err: error }, 'cannot trim a volume');
    }
  }
}

/** A slice at a time, so that a call waits for no more than one; a volume with a call in progress is passed over. */
async function trimVolume(pool: Pool, id: VolumeId, objects: ObjectQueue, signal: AbortSignal): Promise<void> {
  let fromBytes = 0n;
  while (!objects.busy(id)) {
    const options: TrimOptions = { fromBytes, budgetMs: 0 };
    const next = await objects.claim([{ object: id }], 'a trim', () => pool.trim(id, options));
    if (next === undefined) return;
    fromBytes = next;
    await pause(pauseMs, undefined, { signal, ref: false });
  }
}
