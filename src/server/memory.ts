import { PerformanceObserver } from 'node:perf_hooks';
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/*
 * A driver runs on every node, so it stays small under load too. The bench (npm run bench) shows its peak, and what it
 * has idle and after many calls.
 */

/** Half of the young generation from which on it grows no more; V8 by itself lets it grow to 16 MiB. */
const enoughYoungBytes = 2 * 2 ** 20;
/** The old generation may grow by so much of what is alive before its garbage is collected. V8 by itself waits for 8 MiB or more. */
const oldGrowthPercent = 50;

/**
 * Keeps V8's heap small while calls come fast. V8 reads its flags for the size of the young generation before any of our
 * code runs, but by what factor it grows is asked each time, so growing is ended when it has grown enough. It shrinks when
 * calls have come to rest, and then may grow again.
 */
export function limitHeap(): void {
  setFlagsFromString(`--heap-growing-percent=${oldGrowthPercent}`);
  const look = () => {
    const young = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space');
    const halfBytes = (young?.space_used_size ?? 0) + (young?.space_available_size ?? 0);
    setFlagsFromString(`--semi-space-growth-factor=${halfBytes >= enoughYoungBytes ? 1 : 2}`);
  };
  new PerformanceObserver(look).observe({ entryTypes: ['gc'] });
}

/** Collects garbage here and now: 10 to 30 ms in which nothing else runs. V8 by itself waits until it needs the space. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

/** Runs `work` once each time that `activity`, a count, has come to rest. Never keeps the process alive. */
export function whenIdle(activity: () => number, restMs: number, work: () => void): void {
  let seen: number | undefined;
  let worked: number | undefined;
  const look = () => {
    const now = activity();
    if (now === seen && now !== worked) {
      worked = now;
      work();
    }
    seen = now;
  };
  setInterval(look, restMs).unref();
}
