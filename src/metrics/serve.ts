import type { Logger } from 'pino';
import { Health, type HealthOptions } from './health.ts';
import { type HttpListener, type Route, serveHttp } from './listener.ts';

export interface MonitoringOptions extends HealthOptions {
  readonly address: { readonly host: string | undefined; readonly port: number };
  readonly log: Logger;
}

/** Serves health over HTTP. Volumes come and go all the same without it, so a port that is taken stops nothing. */
export async function serveMonitoring(options: MonitoringOptions): Promise<HttpListener | undefined> {
  const { address, log } = options;
  const health = new Health(options);
  const routes = new Map<string, Route>([
    ['/healthz', () => health.alive()],
    ['/readyz', () => health.ready()],
  ]);
  try {
    const listener = await serveHttp(address, routes, (error) => log.error({ err: error }, 'a bug in monitoring'));
    log.info({ host: address.host, port: listener.port }, 'listening for monitoring');
    return listener;
  } catch (error) {
    log.error({ reason: error instanceof Error ? error.message : error }, 'cannot serve metrics and health');
    return undefined;
  }
}
