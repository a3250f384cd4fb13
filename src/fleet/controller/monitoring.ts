import type { Page, Route } from '../../metrics/listener.ts';
import { type Monitoring, type ServingOptions, servePages } from '../../metrics/serving.ts';
import type { FleetView } from '../routing/view.ts';
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
    ['/nodes', async () => nodesPage(options.view)],
  ]);
  return servePages(options, routes);
}

/** For programs: the nodes that have a link to this replica. */
function nodesPage({ nodes }: FleetView): Page {
  const shown = nodes.map(({ sinceMs, ...node }) => ({ ...node, since: new Date(sinceMs).toISOString() }));
  return { status: 200, contentType: 'application/json', body: `${JSON.stringify({ nodes: shown })}\n` };
}
