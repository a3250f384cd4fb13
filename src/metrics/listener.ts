import type { IncomingMessage, ServerResponse } from 'node:http';
import { httpServer, listen } from '../sockets/http-server.ts';
import { limitConnections } from './connections.ts';

/** The answer to a GET. */
export interface Page {
  readonly status: 200 | 503;
  readonly contentType: string;
  readonly body: string;
}

/** Makes a page; only the path of the request matters. */
export type Route = () => Promise<Page>;

/** A running server. */
export interface HttpListener {
  /** The port, for callers that asked for any free one. */
  readonly port: number;
  close(): void;
}

/** Limit of connections: more than a scraper, a prober and an operator need. */
const maxConnections = 32;
/** A client that takes nothing of its answer for this time is gone. */
const silenceTimeoutMs = 10_000;
const requestTimeoutMs = 5_000;

/** Serves pages to every client that can reach the port: they change nothing, and hold no secrets. */
export async function serveHttp(
  address: { readonly host: string | undefined; readonly port: number },
  routes: ReadonlyMap<string, Route>,
  onError: (error: unknown) => void,
): Promise<HttpListener> {
  const server = httpServer({
    headersTimeout: requestTimeoutMs,
    requestTimeout: requestTimeoutMs,
    connectionsCheckingInterval: requestTimeoutMs,
    maxHeaderSize: 8 * 1024,
    answer: (request, response) => void answer(routes, request, response, onError),
    refuse: ({ reason }) => text(`${reason}\n`),
  });
  limitConnections(server, maxConnections, (url) => /^\/(healthz|readyz)\b/.test(url));
  server.setTimeout(silenceTimeoutMs);
  await listen(server, address);
  const bound = server.address();
  // Open connections do not keep the driver from ending.
  server.unref();
  return {
    port: bound !== null && typeof bound === 'object' ? bound.port : address.port,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function answer(
  routes: ReadonlyMap<string, Route>,
  request: IncomingMessage,
  response: ServerResponse,
  onError: (error: unknown) => void,
): Promise<void> {
  // No request of ours has a body.
  request.resume();
  const { method = '', url = '' } = request;
  const route = routes.get(url.replace(/\?.*$/s, ''));
  if (route === undefined) return send(response, 404, text(`There is ${[...routes.keys()].join(', ')}.\n`));
  if (method !== 'GET' && method !== 'HEAD') return send(response, 405, text('Only GET is answered.\n'));
  try {
    const page = await route();
    send(response, page.status, page);
  } catch (error) {
    onError(error);
    send(response, 500, text('internal error; the log of the driver says more\n'));
  }
}

function text(body: string): Pick<Page, 'body' | 'contentType'> {
  return { contentType: 'text/plain; charset=utf-8', body };
}

/** node:http sends no body to a HEAD. */
function send(response: ServerResponse, status: number, { body, contentType }: Pick<Page, 'body' | 'contentType'>) {
  response.writeHead(status, {
    'content-type': contentType,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
  response.end(body);
}
