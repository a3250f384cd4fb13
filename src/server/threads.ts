/** Shares of the worker threads for blocking calls: a disk that hangs takes only its own. */

export interface QueueSizes {
  /** For each pool. */
  readonly pool: number;
  /** For the kubelet's directories, which lie on no pool. */
  readonly kubelet: number;
  /** At most, for each server of volumes that any node can reach. */
  readonly server: number;
}

/** Wanted sizes. Most calls of a pool wait for its disk, which writes together what comes together. */
const wanted: QueueSizes = { pool: 8, kubelet: 4, server: 4 };
/** For work that belongs to no queue: reading a file here and there. */
const spareThreads = 2;

/**
 * For each pool besides its queue: to check its disk, to thaw its frozen filesystems, to grow a btrfs, and to ask two disks
 * of a volume group.
 */
const asideThreads = 5;

/**
 * The number of worker threads that a driver with this many pools wants.
 * @param serverCount servers that can use all their threads at the same time
 */
export function wantedThreads(poolCount: number, serverCount = 0): number {
  return spareThreads + wanted.kubelet + poolCount * (wanted.pool + asideThreads) + serverCount * wanted.server;
}

/** The share of each queue. Queues are smaller with fewer threads than wanted (see `useWorkerThreads`). */
export function queueSizes(threads: number, poolCount: number, serverCount = 0): QueueSizes {
  if (threads >= wantedThreads(poolCount, serverCount)) return wanted;
  const share = Math.max(1, Math.floor((threads - 1) / (poolCount + serverCount + 1)));
  return {
    pool: Math.min(share, wanted.pool),
    kubelet: Math.min(share, wanted.kubelet),
    server: Math.min(share, wanted.server),
  };
}
