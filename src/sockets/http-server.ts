import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** Why a request cannot be answered before it is one. */
export interface BadRequest {
  readonly status: 400 | 405 | 408 | 431;
  /** A sentence. */
  readonly reason: string;
}

export interface HttpServerOptions extends ServerOptions {
  readonly answer: (request: IncomingMessage, response: ServerResponse) => void;
  /** In which words this server refuses. */
  readonly refuse: (problem: BadRequest) => { readonly contentType: string; readonly body: string };
}

/** Who was refused has so long to read it. */
const readingMs = 5_000;

/** A server that says in its own words what node:http would answer with a number and no word. */
export function httpServer({ answer, refuse, ...options }: HttpServerOptions): Server {
  // The host that it was asked by is of no interest, as everybody on this socket means this driver.
  const server = createServer({ ...options, requireHostHeader: false }, answer);
  const lastAnswer = new WeakMap<Duplex, ServerResponse>();
  server.prependListener('request', (request, response) => lastAnswer.set(request.socket, response));
  server.on('checkExpectation', (request, response) => {
    // None is fulfilled, and none has to be known (RFC 9110, 10.1.1).
    server.emit('request', request, response);
  });
  const close = (socket: Duplex, problem: BadRequest) => {
    if (socket.writableEnded) return;
    if (!socket.writable) return void socket.destroy();
    const earlier = lastAnswer.get(socket);
    if (earlier !== undefined && !earlier.closed) {
      // What was well-formed before it gets its answer first, and nobody would understand two answers in one another.
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
