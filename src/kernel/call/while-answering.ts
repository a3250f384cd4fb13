import type { DiskQueue } from './disk-queue.ts';

/** Works in a queue, which is closed when one request in it takes too long. @throws the reason for closing */
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
    // The work may have mistaken the error of a closed queue for another one.
    if (queue.closedFor !== undefined) throw queue.closedFor;
    return result;
  } catch (error) {
    throw queue.closedFor ?? error;
  } finally {
    clearInterval(timer);
  }
}
