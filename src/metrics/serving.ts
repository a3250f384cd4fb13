import type { Logger } from 'pino';
import { type HttpListener, type Route, serveHttp } from './listener.ts';

/** Running metrics and health. */
export interface Monitoring {
  close(): Promise<void>;
}

export interface ServingOptions {
  readonly address: { readonly host: string | undefined; readonly port: number };
  readonly log: Logger;
}

/** Serves these pages. The driver works without them, so a port that is taken stops nothing. */
export function servePages(options: ServingOptions, routes: ReadonlyMap<string, Route>): Monitoring {
  const listening = serve(options, routes);
  return { close: async () => (await listening)?.close() };
}

async function serve({ address, log }: ServingOptions, routes: ReadonlyMap<string, Route>) {
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
