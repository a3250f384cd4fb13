import { setTimeout as pause } from 'node:timers/promises';
import type { Pool, TrimOptions } from '../pool/pool.ts';
import type { Pools } from '../pool/pools.ts';
import type { VolumeId } from '../volume/id.ts';
import type { SingleFlight } from '../volume/single-flight.ts';
import type { Trimming } from '../volume/trimming.ts';

/** Where the timer says what went wrong. Structurally a pino logger. */
export interface TrimLog {
  warn(fields: Record<string, unknown>, message: string): void;
}

export interface TrimTimerOptions {
  readonly pools: Pools;
  /** Shared with the services: no call for a volume meets its trim. */
  readonly flights: SingleFlight;
  readonly log: TrimLog;
}

const hourMs = 3600_000;
const intervalMs: Readonly<Record<Trimming, number>> = { off: Infinity, daily: 24 * hourMs, weekly: 168 * hourMs };

/** How often the timer looks at its watch. */
const tickMs = 60_000;

/** Between two slices the disk belongs to the pods. */
const pauseMs = 100;

/**
 * Trims mounted filesystems of all open pools, one after another. The first time is between 10 minutes and an hour after
 * the start, since nobody wrote down when the last one was, and a trim that finds nothing costs next to nothing.
 */
export class TrimTimer {
  readonly #options: TrimTimerOptions;
  readonly #dueMs = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;
  readonly #stopping = new AbortController();
  #pass: Promise<void> | undefined;

  constructor(options: TrimTimerOptions) {
    this.#options = options;
    const startMs = performance.now();
    for (const name of options.pools.names())
      this.#dueMs.set(name, startMs + hourMs * (1 / 6 + (Math.random() * 5) / 6));
    this.#timer = setInterval(() => this.#tick(performance.now()), tickMs).unref();
  }

  /** Begins nothing more, and waits for the slice at work. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stopping.abort();
    await this.#pass;
  }

  #tick(nowMs: number): void {
    if (this.#pass !== undefined) return;
    const pool = this.#options.pools.all().find(({ name }) => (this.#dueMs.get(name) ?? Infinity) <= nowMs);
    if (pool === undefined) return;
    // Not all nodes of a cluster at the same hour for ever.
    this.#dueMs.set(pool.name, nowMs + intervalMs[pool.trimming] * (0.95 + Math.random() / 10));
    if (pool.trimming === 'off') return;
    this.#pass = trimPool(pool, this.#options, this.#stopping.signal).finally(() => {
      this.#pass = undefined;
    });
  }
}

/** Trims all volumes of a pool that are mounted. Never rejects: what fails is told, and tried again the next time. */
export async function trimPool(
  pool: Pool,
  { flights, log }: Pick<TrimTimerOptions, 'flights' | 'log'>,
  signal: AbortSignal,
): Promise<void> {
  for (const { id } of await pool.list(undefined, undefined).catch(() => [])) {
    // In quarantine its lane is closed.
    if (signal.aborted || pool.lane.closedFor !== undefined) return;
    await trimVolume(pool, id, flights, signal).catch((error) => {
      if (!signal.aborted) log.warn({ pool: pool.name, volume_id: id, err: error }, 'cannot trim a volume');
    });
  }
}

/** A slice at a time, so that a call waits for no more than one; a volume that a call is at work on is passed over. */
async function trimVolume(pool: Pool, id: VolumeId, flights: SingleFlight, signal: AbortSignal): Promise<void> {
  let fromBytes = 0n;
  while (!flights.busy(id)) {
    const options: TrimOptions = { fromBytes, budgetMs: 0 };
    const next = await flights.claim([{ object: id }], 'a trim', () => pool.trim(id, options));
    if (next === undefined) return;
    fromBytes = next;
    await pause(pauseMs, undefined, { signal, ref: false });
  }
}
