import { setTimeout as delay } from 'node:timers/promises';
import { FailedPrecondition } from '../../../volume/errors.ts';

/**
 * A driver that has the pool open writes its stamp at least every 40 seconds (2 * sickAfter, which is 20 s by default), and
 * takes it away when it lets the pool go.
 */
const pausesMs: readonly number[] = Array.from({ length: 25 }, () => 2_000);
/** A stamp that is older was left by a driver that has ended. The clocks of nodes differ. */
const staleAfterMs = 10 * 60_000;

/** The stamp that a driver writes to the disk with each health check. */
export function stampText(count: number, now: Date): string {
  return `holdfast health ${count} ${now.toISOString()}\n`;
}

/** True if the driver that wrote a stamp may be running. */
export function isFresh(stamp: string, nowMs: number): boolean {
  const writtenMs = Date.parse(/^holdfast health \d+ (\S+)\n/.exec(stamp)?.[1] ?? '');
  return !Number.isNaN(writtenMs) && nowMs - writtenMs < staleAfterMs;
}

export interface StampPlace {
  readonly poolName: string;
  /** The path of the disk, for people. */
  readonly path: string;
  /** Reads the stamp that is on the disk now. */
  read(): Promise<string>;
  readonly stopping?: AbortSignal | undefined;
  readonly pausesMs?: readonly number[];
}

/**
 * Refuses a disk that this node does not know while another node runs its pool. The stamp of a running pool changes; the stamp
 * of a node that has died does not.
 * @throws FailedPrecondition
 */
export async function refuseRunElsewhere(place: StampPlace): Promise<void> {
  const { path, poolName, stopping } = place;
  const first = await place.read();
  if (!isFresh(first, Date.now())) return;
  for (const pauseMs of place.pausesMs ?? pausesMs) {
    await delay(pauseMs, undefined, { signal: stopping });
    if ((await place.read()) !== first) {
      throw new FailedPrecondition(
        `pool ${poolName}: another node runs the pool of ${path} just now. Only one node can have a disk: stop the driver there, or take the disk away from one of them. Nothing was changed.`,
      );
    }
  }
}
