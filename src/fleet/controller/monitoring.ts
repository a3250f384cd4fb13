import type { Route } from '../../metrics/listener.ts';
import { type Monitoring, type ServingOptions, servePages } from '../../metrics/serving.ts';
import { FleetMetrics, type FleetMetricsOptions } from './fleet-metrics.ts';
import { ControllerHealth, type ControllerHealthOptions } from './health.ts';

export interface ControllerMonitoringOptions extends ServingOptions, FleetMetricsOptions, ControllerHealthOptions {}

/** Serves a replica's metrics and health over HTTP. */
export function startControllerMonitoring(options: ControllerMonitoringOptions): Monitoring {
  const health = new ControllerHealth(options);
  const metrics = new FleetMetrics(options);
  const routes = new Map<string, Route>([
    ['/metrics', () => metrics.page()],
    ['/healthz', () => health.alive()],
    ['/readyz', () => health.ready()],
  ]);
  return servePages(options, routes);
}
