/**
 * Waits for all to end, even if one fails, and then throws the first error: cleanup or another try does not meet the
 * others still running. For work that changes something; Promise.all does not wait for the others.
 */
export async function finishAll<T>(works: Iterable<Promise<T>>): Promise<T[]> {
  const results: T[] = [];
  for (const outcome of await Promise.allSettled(works)) {
    if (outcome.status === 'rejected') throw outcome.reason;
    results.push(outcome.value);
  }
  return results;
}

/** The same for work that can be stopped: when one fails, the others are aborted. */
export async function finishAllOrStop<T, R>(
  items: readonly T[],
  signal: AbortSignal | undefined,
  work: (item: T, signal: AbortSignal) => Promise<R>,
): Promise<R[]> {
  const end = new AbortController();
  const stop = () => end.abort(signal?.reason);
  if (signal?.aborted) stop();
  signal?.addEventListener('abort', stop, { once: true });
  try {
    return await finishAll(
      items.map(async (item) => {
        try {
          return await work(item, end.signal);
        } catch (error) {
          end.abort(error);
          throw error;
        }
      }),
    );
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}
