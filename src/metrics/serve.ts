import { Health, type HealthOptions } from './health.ts';
import type { Route } from './listener.ts';
import { Metrics, type MetricsOptions } from './metrics.ts';
import { type Monitoring, type ServingOptions, servePages } from './serving.ts';

export type { Monitoring };

export interface MonitoringOptions extends ServingOptions, MetricsOptions, Omit<HealthOptions, 'pools'> {}

/** Serves metrics and health over HTTP, and starts to count. */
export function startMonitoring(options: MonitoringOptions): Monitoring {
  const health = new Health(options);
  const metrics = new Metrics(options);
  const routes = new Map<string, Route>([
    ['/metrics', () => metrics.page()],
    ['/healthz', () => health.alive()],
    ['/readyz', () => health.ready()],
  ]);
  return servePages(options, routes);
}
