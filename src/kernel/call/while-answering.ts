import type { DiskQueue } from './disk-queue.ts';

/** Does some work in a queue, which is closed when one request in it has taken too long. @throws what it is closed for */
export async function whileAnswering<T>(
  queue: DiskQueue,
  { limitMs, silence }: { readonly limitMs: number; readonly silence: Error },
  work: (queue: DiskQueue) => Promise<T>,
): Promise<T> {
  const timer = setInterval(() => {
    const sinceMs = queue.busySinceMs;
    if (sinceMs !== undefined && performance.now() - sinceMs >= limitMs) queue.close(silence);
  }, limitMs / 20);
  try {
    const result = await work(queue);
    // What it was told by a closed queue, it may have taken for something else.
    if (queue.closedFor !== undefined) throw queue.closedFor;
    return result;
  } catch (error) {
    throw queue.closedFor ?? error;
  } finally {
    clearInterval(timer);
  }
}
