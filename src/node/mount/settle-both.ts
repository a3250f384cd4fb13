/** Awaits two things that hold something open, at once; if one fails, the other is let go. */
export async function settleBoth<A extends Disposable | undefined, B extends Disposable | undefined>(
  first: Promise<A>,
  second: Promise<B>,
): Promise<[A, B]> {
  const [a, b] = await Promise.allSettled([first, second]);
  if (a.status === 'fulfilled' && b.status === 'fulfilled') return [a.value, b.value];
  for (const settled of [a, b]) if (settled.status === 'fulfilled') settled.value?.[Symbol.dispose]();
  throw a.status === 'rejected' ? a.reason : b.status === 'rejected' ? b.reason : new Error('unreachable');
}
