import type { RecordStore } from '../backend.ts';

/** A longer time without a driver counts as no longer: it may be the clock that is ahead. */
export const longestPauseMs = 3600_000;

/** The age of a pool at some time of the node's clock. */
export interface NotedAge {
  readonly ageMs: number;
  readonly atMs: number;
}

/**
 * The age of a pool when it is opened. The clock is believed for a short pause only; one that went back counts for nothing.
 * @param minMs something in the pool is known to have been there at this age
 */
export function ageWhenOpened(noted: NotedAge | undefined, nowMs: number, minMs: number): number {
  if (noted === undefined) return minMs;
  const pauseMs = Math.min(longestPauseMs, Math.max(0, nowMs - noted.atMs));
  return Math.max(minMs, noted.ageMs + pauseMs);
}

/**
 * The total time for which a pool has been open. Waiting times are measured by this: the node's clock may be wrong when it
 * boots, and jump when it is put right.
 */
export class PoolAge {
  readonly #records: Pick<RecordStore, 'readAge' | 'writeAge'>;
  readonly #openedMs = performance.now();
  #ageWhenOpenedMs = 0;

  constructor(records: Pick<RecordStore, 'readAge' | 'writeAge'>) {
    this.#records = records;
  }

  get ms(): number {
    return Math.round(this.#ageWhenOpenedMs + performance.now() - this.#openedMs);
  }

  /** @param minMs as for `ageWhenOpened` */
  async takeUp(minMs: number): Promise<void> {
    this.#ageWhenOpenedMs = ageWhenOpened(parseAge(await this.#records.readAge()), Date.now(), minMs);
  }

  /** Always of one length. */
  async note(): Promise<void> {
    await this.#records.writeAge(`${`${this.ms}`.padStart(15)} ${new Date().toISOString()}\n`);
  }
}

/** undefined if there is no note, or half of one: then the time begins again, and nothing goes too early. */
export function parseAge(text = ''): NotedAge | undefined {
  const [, age = '', at = ''] = /^ *(\d{1,15}) (\S{24})\n$/.exec(text) ?? [];
  const noted = { ageMs: Number(age), atMs: Date.parse(at) };
  return age === '' || Number.isNaN(noted.atMs) ? undefined : noted;
}
