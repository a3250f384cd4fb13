import { Gauge, type Registry } from 'prom-client';
import type { Lane } from '../kernel/call/disk-queue.ts';
import type { Pools } from '../pool/pools.ts';

/** The queues for blocking system calls. One whose places are all taken for long has a disk behind it that hangs. */
export function addLaneMetrics(registry: Registry, kubeletLane: Lane, pools: Pools): void {
  const gauge = (name: string, help: string, read: (lane: Lane) => number) =>
    new Gauge({
      name: `holdfast_lane_${name}`,
      help,
      labelNames: ['lane'],
      registers: [registry],
      collect() {
        this.set({ lane: 'kubelet' }, read(kubeletLane));
        for (const { lane, name } of pools.all()) this.set({ lane: `pool ${name}` }, read(lane));
      },
    });
  gauge('places', 'How many blocking system calls the lane lets run at a time.', (lane) => lane.places);
  gauge('running', 'Blocking system calls that run now.', (lane) => lane.running);
  gauge('waiting', 'Blocking system calls that wait for a place.', (lane) => lane.waiting);
}
