import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { toStatus } from '../csi/status.ts';
import { httpServer, listen } from '../sockets/http-server.ts';
import { serveSocket } from '../sockets/unix-socket.ts';
import type { ErrorCode } from '../volume/errors.ts';
import { routeOf } from './routes.ts';
import type { AdminHandlers } from './service.ts';

export interface AdminServerOptions {
  readonly socketPath: string;
  readonly handlers: AdminHandlers;
  readonly log: Logger;
}

/** The running server of the operator's commands. */
export interface AdminServer {
  /** Removes the socket and lets running calls finish; calls that still run after `graceMs` lose their connection. */
  close(graceMs: number): Promise<void>;
}

/** Longer than any id of ours, short enough for a log line. */
const longestIdCharacters = 128;

const httpStatus: Readonly<Partial<Record<ErrorCode, number>>> = {
  INVALID_ARGUMENT: 400,
  NOT_FOUND: 404,
  ABORTED: 409,
  ALREADY_EXISTS: 409,
  FAILED_PRECONDITION: 409,
  UNIMPLEMENTED: 501,
  UNAVAILABLE: 503,
  RESOURCE_EXHAUSTED: 507,
};

/**
 * Serves the commands that change something, as HTTP with JSON, on a separate socket that only root may use.
 * @throws SocketTaken if another driver serves it
 */
export async function serveAdmin({ handlers, log, socketPath }: AdminServerOptions): Promise<AdminServer> {
  const server = httpServer({
    answer: (request, response) => void answer(request, response, handlers, log),
    refuse: ({ reason: message }) => ({
      contentType: 'application/json',
      body: JSON.stringify({ code: 'INVALID_ARGUMENT', message }),
    }),
  });
  const socket = await serveSocket(socketPath, (path) => listen(server, { path }));
  return {
    async close(graceMs) {
      await socket.remove();
      await stop(server, graceMs);
    },
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  handlers: AdminHandlers,
  log: Logger,
): Promise<void> {
  const startedMs = performance.now();
  // No request of ours has a body.
  request.resume();
  const { method = '', url = '' } = request;
  const call = routeOf(handlers, method, url);
  if (call === undefined) {
    send(response, 404, {
      code: 'UNIMPLEMENTED',
      message: 'Unknown command: the driver and the command line have different versions.',
    });
    return;
  }
  const fields: Record<string, string | number> = { admin: call.operation };
  if (call.volumeId !== undefined) fields['volume_id'] = call.volumeId.slice(0, longestIdCharacters);
  const line = (code: string) => ({ ...fields, code, ms: Math.round((performance.now() - startedMs) * 100) / 100 });
  try {
    const result = await call.run({ note: (more) => Object.assign(fields, more) });
    log.info(line('OK'));
    send(response, 200, result);
  } catch (error) {
    const { code, message, stack } = toStatus(error);
    if (stack !== undefined) fields['stack'] = stack;
    const isOurFault = code === 'INTERNAL' || code === 'DATA_LOSS';
    log[isOurFault ? 'error' : 'warn'](line(code), message);
    send(response, httpStatus[code] ?? 500, { code, message });
  }
}

function send(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  response.end(text);
}

function stop(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), graceMs);
    server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    server.closeIdleConnections();
  });
}
