import { setTimeout as delay } from 'node:timers/promises';
import { FailedPrecondition } from '../../../volume/errors.ts';

/**
 * A driver that has the pool open writes its stamp at least every 40 seconds (2 * sickAfter, which is 20 s by default), and
 * takes it away when it lets the pool go.
 */
const pausesMs: readonly number[] = Array.from({ length: 25 }, () => 2_000);
/** A stamp that is older was left by a driver that has ended. The clocks of nodes differ. */
const staleAfterMs = 10 * 60_000;

/** What a driver notes on the disk with each look at its health. */
export function stampText(count: number, now: Date): string {
  return `holdfast health ${count} ${now.toISOString()}\n`;
}

/** Whether whoever wrote a stamp may be alive. */
export function isFresh(stamp: string, nowMs: number): boolean {
  const writtenMs = Date.parse(/^holdfast health \d+ (\S+)\n/.exec(stamp)?.[1] ?? '');
  return !Number.isNaN(writtenMs) && nowMs - writtenMs < staleAfterMs;
}

export interface StampPlace {
  readonly poolName: string;
  /** Of the disk, for people. */
  readonly path: string;
  /** What is on the disk now. */
  read(): Promise<string>;
  readonly stopping?: AbortSignal | undefined;
  readonly pausesMs?: readonly number[];
}

/**
 * Of a disk that this node does not know: whether another node that sees it, too, runs its pool. It is told by a stamp that
 * moves. One that was left by a node that has died stands still.
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
