import { once, setMaxListeners } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { Logger } from 'pino';
import { HoldfastError, InvalidArgument, NotFound, Unavailable } from '../../volume/errors.ts';
import { Door } from '../controller/door.ts';
import { BadToken } from '../kubernetes/token-review.ts';
import { NotAllowed } from '../kubernetes/viewers.ts';
import type { Material } from '../tls/material.ts';
import { type ListName, listIn, listNames, type ViewWishes, widthHeader, wishesOf } from './request.ts';

/** Lines of an answer, for the output of results or of problems; then the exit code of the command. */
export interface Answer {
  readonly lines: Iterable<{ readonly to: 'result' | 'problem'; readonly text: string }>;
  readonly exitCode: number;
}

export interface ViewServerOptions {
  readonly host: string | undefined;
  readonly port: number;
  readonly material: Material;
  readonly log: Logger;
  /** Returns the name of the token's user. @throws BadToken, NotAllowed, Unavailable */
  readonly admit: (token: string, list: ListName) => Promise<string>;
  /** Answers the request, and never fails. */
  readonly look: (wishes: ViewWishes, signal: AbortSignal) => Promise<Answer>;
  /** Renders an error as a sentence for people. */
  readonly refuse: (error: HoldfastError, wantsJson: boolean) => Answer;
}

/** Limit of requests at a time: each may hold the answers of a fleet in memory. */
const maxAtOnce = 2;
/** A token has 16 KiB at most. */
const longestHeadBytes = 24 * 1024;
const requestMs = 10_000;
/** Time after which a client that reads nothing of its answer is gone; and the limit for a whole request. */
const silenceMs = 30_000;
const longestMs = 5 * 60_000;

/** The controller's port for viewers of the fleet. It changes nothing. */
export class ViewServer {
  readonly #server: Server;
  readonly #options: ViewServerOptions;
  #door: Door | undefined;
  #running = 0;

  constructor(options: ViewServerOptions) {
    this.#options = options;
    const { 'tls.crt': cert, 'tls.key': key } = options.material;
    const limits = { headersTimeout: requestMs, requestTimeout: requestMs, maxHeaderSize: longestHeadBytes };
    this.#server = createServer({ ...limits, cert, key, keepAliveTimeout: 5_000, requireHostHeader: false });
    this.#server.setTimeout(silenceMs);
    this.#server.on('request', (request, response) => void this.#answer(request, response));
    // Requests have no body, so `100 Continue` is never sent.
    this.#server.on('checkContinue', (request, response) => void this.#answer(request, response));
    // Closes without an answer: a client without TLS or HTTP is none of ours.
    this.#server.on('clientError', (_error, socket) => socket.destroy());
    this.#server.on('connect', (_request, socket) => socket.destroy());
  }

  get port(): number {
    return this.#door?.port ?? 0;
  }

  async listen(): Promise<void> {
    const { host, port } = this.#options;
    this.#door = await Door.open({ host, port, admit: (socket) => this.#server.emit('connection', socket) });
  }

  /** Uses the certificate for new connections. */
  renew({ 'tls.crt': cert, 'tls.key': key }: Material): void {
    this.#server.setSecureContext({ cert, key });
  }

  async close(): Promise<void> {
    await this.#door?.close();
    this.#server.closeAllConnections();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.resume();
    const { log, look, refuse } = this.#options;
    const startedMs = performance.now();
    const { pathname, search } = targetOf(request.url ?? '');
    const fields: Record<string, string | number> = { view: pathname.slice(0, 64) };
    const gone = new AbortController();
    // Each node's query listens to it.
    setMaxListeners(0, gone.signal);
    response.once('close', () => gone.abort());
    const timer = setTimeout(() => request.socket.destroy(), longestMs);
    try {
      const wishes = await this.#admit(request, { pathname, search }, fields);
      if (this.#running >= maxAtOnce)
        throw new Unavailable(`${maxAtOnce} other requests for the fleet are in progress; try again.`);
      this.#running++;
      try {
        await send(response, 200, await look(wishes, gone.signal), gone.signal);
      } finally {
        this.#running--;
      }
      log.info(
        { ...fields, code: 'OK', ms: Math.round(performance.now() - startedMs) },
        'answered a view of the fleet',
      );
    } catch (error) {
      if (gone.signal.aborted) return;
      if (!(error instanceof HoldfastError)) log.error({ ...fields, err: error }, 'a bug in the view of the fleet');
      const told = error instanceof HoldfastError ? error : new Unavailable('The controller failed: see its log.');
      log.warn({ ...fields, code: told.code, reason: told.message }, 'request refused');
      const answer = refuse(told, /[?&]output=json(&|$)/.test(search));
      await send(response, statusOf(told), answer, gone.signal).catch(() => undefined);
    } finally {
      clearTimeout(timer);
    }
  }

  /** @throws HoldfastError */
  async #admit(
    request: IncomingMessage,
    { pathname, search }: { readonly pathname: string; readonly search: string },
    fields: Record<string, string | number>,
  ): Promise<ViewWishes> {
    const list = listIn(pathname);
    // Without a token nothing is revealed, not even which lists exist.
    fields['user'] = await this.#options.admit(tokenOf(request), list ?? 'nodes');
    const { remoteAddress = '', remotePort = 0 } = request.socket;
    this.#door?.known(`${remoteAddress}:${remotePort}`);
    if (request.method !== 'GET') throw new InvalidArgument('Only GET is answered.');
    if (list === undefined) throw new NotFound(`There is ${listNames.map((name) => `/v1/${name}`).join(', ')}.`);
    const columns = request.headers[widthHeader];
    return wishesOf(list, search, typeof columns === 'string' ? columns : undefined);
  }
}

/** The API server uses the usual header itself, so requests through its proxy have another. */
function tokenOf({ headers }: IncomingMessage): string {
  const own = headers['x-holdfast-token'];
  if (typeof own === 'string') return own;
  return /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1] ?? '';
}

function targetOf(url: string): { pathname: string; search: string } {
  const [pathname = '', search = ''] = url.split('?', 2);
  return { pathname, search: search === '' ? '' : `?${search}` };
}

function statusOf(error: HoldfastError): number {
  if (error instanceof BadToken) return 401;
  if (error instanceof NotAllowed) return 403;
  if (error instanceof NotFound) return 404;
  return error instanceof InvalidArgument ? 400 : 503;
}

const pieceCharacters = 64 * 1024;
const marks = { result: '1', problem: '2' } as const;

/**
 * Sends the output of a command: `1` and `2` before the lines of its two outputs, `x` before its exit code at the end.
 */
async function send(
  response: ServerResponse,
  status: number,
  { exitCode, lines }: Answer,
  signal: AbortSignal,
): Promise<void> {
  response.writeHead(status, {
    'content-type': 'text/plain; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...(status === 200 ? {} : { connection: 'close' }),
  });
  let piece = '';
  for (const { text, to } of lines) {
    piece += `${marks[to]}${text}\n`;
    if (piece.length < pieceCharacters) continue;
    if (!response.write(piece)) await once(response, 'drain', { signal });
    piece = '';
  }
  response.end(`${piece}x${exitCode}\n`);
  // Unread output is still in memory.
  if (!response.closed) await once(response, 'close');
}
