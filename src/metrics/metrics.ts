import { Gauge, Registry } from 'prom-client';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { Pools } from '../pool/pools.ts';
import { CallMetrics } from './call-metrics.ts';
import type { Page } from './listener.ts';
import { PoolMetrics } from './pool-metrics.ts';
import { addProcessMetrics } from './process-metrics.ts';
import { addQueueMetrics } from './queue-metrics.ts';
import { ServerMetrics, type UsedServer } from './server-metrics.ts';

export interface MetricsOptions {
  readonly pools: Pools;
  /** The queue for the kubelet's directories. */
  readonly kubeletQueue: DiskQueue;
  /** The servers whose volumes this node uses, and their queues; undefined: it has no node service. */
  readonly remote?: RemoteVolumes | undefined;
  /** Labels of `holdfast_build_info`. */
  readonly identity: { readonly version: string; readonly driver: string; readonly node_id: string };
}

export interface RemoteVolumes {
  readonly volumes: { servers(): readonly UsedServer[] };
  readonly servers: { readonly queues: readonly DiskQueue[] };
}

/** All metrics. Counting begins with the constructor: work of pools while they open is included. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #calls: CallMetrics;
  readonly #pools: PoolMetrics;
  readonly #servers: ServerMetrics;
  #rendering: Promise<Page> | undefined;

  constructor({ identity, kubeletQueue, pools, remote }: MetricsOptions) {
    const labels = { ...identity, nodejs: process.versions.node };
    new Gauge({
      name: 'holdfast_build_info',
      help: 'Always 1; the labels identify the driver.',
      labelNames: ['version', 'driver', 'node_id', 'nodejs'],
      registers: [this.#registry],
    }).set(labels, 1);
    this.#calls = new CallMetrics(this.#registry);
    this.#pools = new PoolMetrics(this.#registry, pools);
    this.#servers = new ServerMetrics(this.#registry, () => remote?.volumes.servers() ?? []);
    addQueueMetrics(this.#registry, { kubeletQueue, pools, ofServers: () => remote?.servers.queues ?? [] });
    addProcessMetrics(this.#registry);
  }

  /** Renders Prometheus' text format. Concurrent requests share one answer. */
  page(): Promise<Page> {
    this.#rendering ??= this.#render().finally(() => {
      this.#rendering = undefined;
    });
    return this.#rendering;
  }

  async #render(): Promise<Page> {
    await Promise.all([this.#pools.collect(), this.#servers.collect()]);
    this.#calls.collect();
    return { status: 200, contentType: this.#registry.contentType, body: await this.#registry.metrics() };
  }
}
