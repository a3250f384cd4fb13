import { PerformanceObserver } from 'node:perf_hooks';
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/*
 * The driver runs on every node, so it must stay small under load too. The bench (npm run bench) shows its peak, and
 * its size when idle and after many calls.
 */

/** Half of the size at which the young generation stops growing; V8's own limit is 16 MiB. */
const enoughYoungBytes = 2 * 2 ** 20;
/**
 * Growth of the old generation, as a part of the live data, before its garbage is collected. V8 waits for at least 8
 * MiB.
 */
const oldGrowthPercent = 50;

/**
 * Keeps V8's heap small while calls come fast. V8 reads the maximum of the young generation before any of our code
 * runs, but it reads the growth factor each time, so the growth is stopped at the wanted size. The generation shrinks
 * when calls cease, and may then grow again.
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

/** Collects garbage immediately: 10 to 30 ms in which nothing else runs. V8 alone waits until it needs the space. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

/** Runs `work` once each time that `activity`, a counter, stops changing. Never keeps the process alive. */
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
