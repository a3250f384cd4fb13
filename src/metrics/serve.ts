import type { Logger } from 'pino';
import { Health, type HealthOptions } from './health.ts';
import { type HttpListener, type Route, serveHttp } from './listener.ts';
import { Metrics, type MetricsOptions } from './metrics.ts';

export interface MonitoringOptions extends MetricsOptions, Omit<HealthOptions, 'pools'> {
  readonly address: { readonly host: string | undefined; readonly port: number };
  readonly log: Logger;
}

/** Metrics and health at work. */
export interface Monitoring {
  close(): Promise<void>;
}

/**
 * Serves metrics and health over HTTP, and counts from now on. Volumes come and go all the same without it, so a port that
 * is taken stops nothing.
 */
export function startMonitoring(options: MonitoringOptions): Monitoring {
  const health = new Health(options);
  const metrics = new Metrics(options);
  const routes = new Map<string, Route>([
    ['/metrics', () => metrics.page()],
    ['/healthz', () => health.alive()],
    ['/readyz', () => health.ready()],
  ]);
  const listening = serve(options, routes);
  return { close: async () => (await listening)?.close() };
}

async function serve({ address, log }: MonitoringOptions, routes: ReadonlyMap<string, Route>) {
  try {
    const listener: HttpListener = await serveHttp(address, routes, (error) =>
      log.error({ err: error }, 'a bug in monitoring'),
    );
    log.info({ host: address.host, port: listener.port }, 'listening for monitoring');
    return listener;
  } catch (error) {
    log.error({ reason: error instanceof Error ? error.message : error }, 'cannot serve metrics and health');
    return undefined;
  }
}
