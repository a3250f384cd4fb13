import { Gauge, type Registry } from 'prom-client';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { Pools } from '../pool/pools.ts';

export interface MeasuredQueues {
  readonly kubeletQueue: DiskQueue;
  readonly pools: Pools;
  /** Several may have one name. */
  readonly ofServers: () => readonly DiskQueue[];
}

/** The queues for blocking system calls. A queue that stays full has a disk or a server behind it that hangs. */
export function addQueueMetrics(registry: Registry, { kubeletQueue, ofServers, pools }: MeasuredQueues): void {
  const gauge = (name: string, help: string, read: (queue: DiskQueue) => number) =>
    new Gauge({
      name: `holdfast_disk_queue_${name}`,
      help,
      labelNames: ['queue'],
      registers: [registry],
      collect() {
        this.reset();
        this.set({ queue: 'kubelet' }, read(kubeletQueue));
        for (const { queue, name } of pools.all()) this.set({ queue: `pool ${name}` }, read(queue));
        for (const queue of ofServers()) this.inc({ queue: `server ${queue.name}` }, read(queue));
      },
    });
  gauge('places', 'Maximum of blocking system calls that run at a time.', (queue) => queue.places);
  gauge('running', 'Blocking system calls that are running.', (queue) => queue.running);
  gauge('waiting', 'Blocking system calls that wait for a place.', (queue) => queue.waiting);
}
