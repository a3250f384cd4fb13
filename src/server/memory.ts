import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/*
 * Imported first of all. A driver is idle most of the time and runs on every node: without this, V8 keeps a young
 * generation of up to 48 MiB for a burst of calls that is long over. The bench (npm run bench) shows what the process has
 * idle and after many calls.
 */
setFlagsFromString('--max-semi-space-size=4');

/** Collects garbage at once: nothing else runs for 10 to 30 ms. V8 by itself waits until it needs the space. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

/** Runs `work` once each time that the count `activity` has come to rest. Never keeps the process alive. */
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
