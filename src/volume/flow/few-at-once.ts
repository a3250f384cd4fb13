import { setImmediate as nextTurn } from 'node:timers/promises';

/** More would only wait in a queue, with files open and memory for what they read. */
const few = 32;
/** Others of this thread wait no longer: work that finds all in memory never pauses. */
const turnMs = 5;

/**
 * Works on each of many items, a few at a time, in their order. After a failure none is begun any more.
 * @returns the results, in the order of the items
 */
export async function fewAtOnce<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const rest = items.entries();
  let hasFailed = false;
  let turnEndsMs = performance.now() + turnMs;
  const workOn = async () => {
    for (const [index, item] of rest) {
      if (hasFailed) return;
      results[index] = await work(item).catch((error: unknown) => {
        hasFailed = true;
        throw error;
      });
      if (performance.now() < turnEndsMs) continue;
      await nextTurn();
      turnEndsMs = performance.now() + turnMs;
    }
  };
  await Promise.all(Array.from({ length: Math.min(few, items.length) }, workOn));
  return results;
}
