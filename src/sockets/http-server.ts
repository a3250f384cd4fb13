import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http';
import type { ListenOptions, Server as NetServer } from 'node:net';
import type { Duplex } from 'node:stream';

/** The reason why bytes on a connection are no valid request. */
export interface BadRequest {
  readonly status: 400 | 405 | 408 | 431;
  /** A sentence. */
  readonly reason: string;
}

export interface HttpServerOptions extends ServerOptions {
  readonly answer: (request: IncomingMessage, response: ServerResponse) => void;
  /** Makes the body of a refusal. */
  readonly refuse: (problem: BadRequest) => { readonly contentType: string; readonly body: string };
}

/** Time that a refused client gets to read the reason. */
const readingMs = 5_000;

/** A server whose refusals have a reason, where node:http would answer with a number alone. */
export function httpServer({ answer, refuse, ...options }: HttpServerOptions): Server {
  // The Host header does not matter: everything on this socket is for this driver.
  const server = createServer({ ...options, requireHostHeader: false }, answer);
  const lastAnswer = new WeakMap<Duplex, ServerResponse>();
  server.prependListener('request', (request, response) => lastAnswer.set(request.socket, response));
  server.on('checkExpectation', (request, response) => {
    // Ignores expectations, as no server has to know any (RFC 9110, 10.1.1).
    server.emit('request', request, response);
  });
  const close = (socket: Duplex, problem: BadRequest) => {
    if (socket.writableEnded) return;
    if (!socket.writable) return void socket.destroy();
    const earlier = lastAnswer.get(socket);
    if (earlier !== undefined && !earlier.closed) {
      // An earlier, well-formed request gets its answer first, so that two answers do not mix.
      earlier.once('close', () => close(socket, problem));
      return;
    }
    const { body, contentType } = refuse(problem);
    const head = [
      `HTTP/1.1 ${problem.status} ${statusWords[problem.status]}`,
      `content-type: ${contentType}`,
      `content-length: ${Buffer.byteLength(body)}`,
      'connection: close',
    ];
    socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
    const timer = setTimeout(() => socket.destroy(), readingMs).unref();
    socket.once('close', () => clearTimeout(timer));
  };
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => close(socket, problemOf(error.code)));
  server.on('connect', (_, socket) => close(socket, { status: 405, reason: 'This is no proxy.' }));
  return server;
}

/** Resolves once the server listens. */
export function listen(server: NetServer, where: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(where, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

const statusWords: Readonly<Record<BadRequest['status'], string>> = {
  400: 'Bad Request',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  431: 'Request Header Fields Too Large',
};

function problemOf(code: string | undefined): BadRequest {
  if (code === 'HPE_HEADER_OVERFLOW') return { status: 431, reason: 'The headers of the request are too long.' };
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return { status: 408, reason: 'The request did not end in time.' };
  return { status: 400, reason: 'This is no well-formed HTTP request.' };
}
