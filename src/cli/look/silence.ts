import type { Config } from '../../config/config.ts';
import { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { whileAnswering } from '../../kernel/call/while-answering.ts';
import { type PoolConfig, placeOf } from '../../pool/kinds.ts';
import type { SeenPool } from './inventory.ts';

/** Longer than any disk that is merely busy takes for one request, and what a person waits for without a thought. */
const longestSilenceMs = 10_000;

/** The time that one request to a disk of this pool may take before the disk is not waited for. */
export function silentAfterMs({ sickAfterMs }: PoolConfig): number {
  return Math.min(sickAfterMs, longestSilenceMs);
}

/** The pool's disk has not answered. */
export class DiskSilent extends Error {}

/**
 * Does some work in a separate queue, which is closed when one request in it has taken too long.
 * @throws DiskSilent
 */
export function unlessSilent<T>(pool: PoolConfig, places: number, work: (queue: DiskQueue) => Promise<T>): Promise<T> {
  const limitMs = silentAfterMs(pool);
  const queue = new DiskQueue(`pool ${pool.name}`, places);
  return whileAnswering(queue, { limitMs, silence: new DiskSilent(advice(limitMs)) }, work);
}

/** A pool of which nothing is known but that its disk does not answer. */
export function silentSight(config: PoolConfig, { dataDirectory }: Config, afterMs: number): SeenPool {
  const location = {
    ...placeOf(config, dataDirectory),
    state: 'silent',
    advice: advice(afterMs),
    holders: [],
  } as const;
  return { config, location, contents: undefined };
}

function advice(afterMs: number): string {
  return `its disk has not answered for ${Math.round(afterMs / 1000)} s, so nothing of it is shown. See dmesg, and "Sick disks" in docs/operations.md.`;
}
