/**
 * Waits for all to end, also if one fails, and only then fails as the first of them did: who cleans up, or tries again,
 * must not meet the others at work. For works that change something; Promise.all leaves them to themselves.
 */
export async function finishAll<T>(works: Iterable<Promise<T>>): Promise<T[]> {
  const results: T[] = [];
  for (const outcome of await Promise.allSettled(works)) {
    if (outcome.status === 'rejected') throw outcome.reason;
    results.push(outcome.value);
  }
  return results;
}

/** The same for works that can be told to stop: when one has failed, what the others would still do is for nothing. */
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
