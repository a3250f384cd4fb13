import type { GitSource } from '../../command/git-source.ts';
import { DiskQueue } from '../../kernel/call/disk-queue.ts';

/** Git takes memory and the node's network; more at once would only make each of them later. */
const atOnce = { onThisNode: 4, fromOneHost: 2 };

/** One for each host, for as long as it is asked: of those that never answer, none holds up another. */
const queues = new Map<string, DiskQueue>();

/** Does the work when it is its turn among all that want something of the same host, or of this node's own disks. */
export async function inTurn<T>({ repository }: GitSource, work: () => Promise<T>): Promise<T> {
  const host = repository.startsWith('/') ? '' : new URL(repository).host;
  const queue = queues.get(host) ?? new DiskQueue(`git ${host}`, host === '' ? atOnce.onThisNode : atOnce.fromOneHost);
  queues.set(host, queue);
  try {
    return await queue.run(work);
  } finally {
    if (queue.isIdle && queues.get(host) === queue) queues.delete(host);
  }
}
