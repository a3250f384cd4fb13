/** The items of a source, of which the next ones come while others are used. */
export async function* ahead<T>(source: AsyncIterable<T>, count: number): AsyncGenerator<T, void, void> {
  const iterator = source[Symbol.asyncIterator]();
  const coming: Promise<IteratorResult<T, unknown>>[] = [];
  try {
    for (;;) {
      while (coming.length < count) {
        const next = iterator.next();
        // It is awaited later, or not at all.
        next.catch(() => undefined);
        coming.push(next);
      }
      const first = await coming.shift();
      if (first === undefined || first.done === true) return;
      yield first.value;
    }
  } finally {
    await iterator.return?.();
  }
}
