import { Gauge, Registry } from 'prom-client';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { Pools } from '../pool/pools.ts';
import { CallMetrics } from './call-metrics.ts';
import type { Page } from './listener.ts';
import { PoolMetrics } from './pool-metrics.ts';
import { addProcessMetrics } from './process-metrics.ts';
import { addQueueMetrics } from './queue-metrics.ts';

export interface MetricsOptions {
  readonly pools: Pools;
  /** The queue for the kubelet's directories. */
  readonly kubeletQueue: DiskQueue;
  /** Labels of `holdfast_build_info`. */
  readonly identity: { readonly version: string; readonly driver: string; readonly node_id: string };
}

/** All metrics. Counting begins with the constructor: work of pools while they open is included. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #calls: CallMetrics;
  readonly #pools: PoolMetrics;
  #rendering: Promise<Page> | undefined;

  constructor({ identity, kubeletQueue, pools }: MetricsOptions) {
    const labels = { ...identity, nodejs: process.versions.node };
    new Gauge({
      name: 'holdfast_build_info',
      help: 'Always 1; the labels identify the driver.',
      labelNames: ['version', 'driver', 'node_id', 'nodejs'],
      registers: [this.#registry],
    }).set(labels, 1);
    this.#calls = new CallMetrics(this.#registry);
    this.#pools = new PoolMetrics(this.#registry, pools);
    addQueueMetrics(this.#registry, kubeletQueue, pools);
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
    await this.#pools.collect();
    this.#calls.collect();
    return { status: 200, contentType: this.#registry.contentType, body: await this.#registry.metrics() };
  }
}
