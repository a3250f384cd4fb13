/** How the worker threads for blocking calls are shared out, so that a disk that hangs takes only its own. */

export interface QueueSizes {
  /** For each pool. */
  readonly pool: number;
  /** For the kubelet's directories, which lie on no pool. */
  readonly kubelet: number;
}

/** Of a pool: most of its calls wait for its disk, which writes what comes together in one go. */
const wanted: QueueSizes = { pool: 8, kubelet: 4 };
/** For what belongs to no queue: reading a file here and there. */
const spareThreads = 2;

/** For each pool beside its queue: to ask its disk how it is, and to thaw what it has frozen. */
const asideThreads = 2;

/** How many worker threads a driver with this many pools wants. */
export function wantedThreads(poolCount: number): number {
  return spareThreads + wanted.kubelet + poolCount * (wanted.pool + asideThreads);
}

/** Each queue's share of the threads there are. Fewer than wanted (see `useWorkerThreads`): smaller queues. */
export function queueSizes(threads: number, poolCount: number): QueueSizes {
  if (threads >= wantedThreads(poolCount)) return wanted;
  const share = Math.max(1, Math.floor((threads - 1) / (poolCount + 1)));
  return { pool: Math.min(share, wanted.pool), kubelet: Math.min(share, wanted.kubelet) };
}
