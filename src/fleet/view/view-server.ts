import { setMaxListeners } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { Logger } from 'pino';
import { type Answer, sendAnswer } from '../../page/answer.ts';
import { isFromElsewhere, pageFileIn, sendPageFile } from '../../page/files.ts';
import { HoldfastError, InvalidArgument, NotFound, Unavailable } from '../../volume/errors.ts';
import { Door } from '../controller/door.ts';
import { BadToken } from '../kubernetes/token-review.ts';
import { NotAllowed, type Viewer, type Viewers } from '../kubernetes/viewers.ts';
import type { Material } from '../tls/material.ts';
import { PageStreams, type Watch } from './page-streams.ts';
import { Places } from './places.ts';
import {
  type ChangeWishes,
  changeIn,
  changeWishesOf,
  listIn,
  listNames,
  rightsOf,
  type ViewWishes,
  widthHeader,
  wishesOf,
} from './request.ts';

export interface ViewServerOptions {
  readonly host: string | undefined;
  readonly port: number;
  readonly material: Material;
  readonly log: Logger;
  readonly driverName: string;
  readonly viewers: Pick<Viewers, 'admit' | 'may' | 'whose'>;
  /** Answers the request, and never fails. */
  readonly look: (wishes: ViewWishes, signal: AbortSignal) => Promise<Answer>;
  /** Makes the change. @throws HoldfastError */
  readonly change: (wishes: ChangeWishes, signal: AbortSignal) => Promise<Answer>;
  /** Keeps a board of the fleet current, until it is disposed of. */
  readonly watch: () => Watch;
  /** Renders an error as a sentence for people. */
  readonly refuse: (error: HoldfastError, wantsJson: boolean) => Answer;
}

/** Limit of requests at a time: each may hold the answers of a fleet in memory. */
const maxAtOnce = 2;
/** Changes at a time: each waits for a node, and holds no answers. */
const maxChanges = 8;
/** A few people at a time, each with a few clicks. */
const maxWaiting = 32;
const waitMs = 20_000;
/** A token has 16 KiB at most. */
const longestHeadBytes = 24 * 1024;
const requestMs = 10_000;
/** Time after which a client that reads nothing of its answer is gone; and the limit for a whole request. */
const silenceMs = 30_000;
const longestMs = 5 * 60_000;

/** The controller's port for viewers of the fleet: lists, the page with its stream, and the few changes. */
export class ViewServer {
  readonly #server: Server;
  readonly #options: ViewServerOptions;
  readonly #pages: PageStreams;
  readonly #places = {
    list: new Places({ max: maxAtOnce, maxWaiting, waitMs }),
    change: new Places({ max: maxChanges, maxWaiting, waitMs }),
  };
  #door: Door | undefined;

  constructor(options: ViewServerOptions) {
    this.#options = options;
    this.#pages = new PageStreams(options);
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
    this.#pages.close();
    await this.#door?.close();
    this.#server.closeAllConnections();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.resume();
    const { log, refuse } = this.#options;
    const startedMs = performance.now();
    const { pathname, search } = targetOf(request.url ?? '');
    const fields: Record<string, string | number> = { view: pathname.slice(0, 64) };
    const gone = new AbortController();
    // Each node's query listens to it.
    setMaxListeners(0, gone.signal);
    response.once('close', () => gone.abort());
    const isStream = pathname === streamPath;
    const timer = isStream ? undefined : setTimeout(() => request.socket.destroy(), longestMs);
    try {
      const file = pageFileIn(pathname);
      if (file !== undefined) return await sendPageFile(request, response, file);
      if (isFromElsewhere(request)) throw new NotAllowed('A page of another site has no business here.');
      const asked = { request, response, pathname, search, gone: gone.signal, fields };
      await (isStream ? this.#stream(asked) : this.#reply(asked));
      const message = isStream ? 'a page has been closed' : 'answered a view of the fleet';
      log.info({ ...fields, code: 'OK', ms: Math.round(performance.now() - startedMs) }, message);
    } catch (error) {
      if (gone.signal.aborted) return;
      if (!(error instanceof HoldfastError)) log.error({ ...fields, err: error }, 'a bug in the view of the fleet');
      const told = error instanceof HoldfastError ? error : new Unavailable('The controller failed: see its log.');
      log.warn({ ...fields, code: told.code, reason: told.message }, 'request refused');
      if (response.headersSent) return void response.destroy();
      const answer = refuse(told, /[?&]output=json(&|$)/.test(search));
      await sendAnswer(response, statusOf(told), answer, gone.signal).catch(() => undefined);
    } finally {
      clearTimeout(timer);
    }
  }

  /** A list or a change: output of a command. @throws HoldfastError */
  async #reply({ fields, gone, pathname, request, response, search }: Asked): Promise<void> {
    const { change, look, viewers } = this.#options;
    const list = listIn(pathname);
    const changing = changeIn(pathname);
    // Without a token nothing is revealed, not even which lists exist.
    const right = changing === undefined ? ({ verb: 'get', resource: list ?? 'nodes' } as const) : rightsOf[changing];
    const viewer = await viewers.admit(tokenOf(request), right);
    this.#known(request, fields, viewer);
    const isPost = request.method === 'POST';
    if (changing === undefined ? request.method !== 'GET' : !isPost) {
      throw new InvalidArgument(changing === undefined ? 'Only GET is answered.' : 'Changes are asked for by POST.');
    }
    if (changing !== undefined) {
      const wishes = changeWishesOf(changing, search);
      Object.assign(fields, { change: changing, ...(wishes.node !== undefined && { node: wishes.node }) });
      if (wishes.volume !== undefined) fields['volume'] = wishes.volume.slice(0, 128);
      // A change goes on when its caller is gone: it says how it ended in the log.
      const answer = await this.#places.change.run(gone, () => change(wishes, new AbortController().signal));
      if (wishes.node !== undefined) this.#pages.changed(wishes.node);
      return sendAnswer(response, 200, answer, gone);
    }
    if (list === undefined) throw new NotFound(`There is ${listNames.map((name) => `/v1/${name}`).join(', ')}.`);
    const columns = request.headers[widthHeader];
    const wishes = wishesOf(list, search, typeof columns === 'string' ? columns : undefined);
    await this.#places.list.run(gone, async () => sendAnswer(response, 200, await look(wishes, gone), gone));
  }

  /** The lists of a page, as long as it is open. @throws HoldfastError */
  async #stream({ fields, gone, request, response }: Asked): Promise<void> {
    const token = tokenOf(request);
    const viewer = await this.#options.viewers.whose(token);
    this.#known(request, fields, viewer);
    if (request.method !== 'GET') throw new InvalidArgument('Only GET is answered.');
    await this.#pages.serve({ request, response, gone, token, viewer });
  }

  #known({ socket }: IncomingMessage, fields: Record<string, string | number>, { name }: Viewer): void {
    fields['user'] = name;
    const { remoteAddress = '', remotePort = 0 } = socket;
    this.#door?.known(`${remoteAddress}:${remotePort}`);
  }
}

/** A request under way. */
interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly pathname: string;
  readonly search: string;
  readonly gone: AbortSignal;
  /** Fields of the log line. */
  readonly fields: Record<string, string | number>;
}

const streamPath = '/v1/stream';

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
  // By their codes: a node's errors are passed on as they are.
  if (error.code === 'NOT_FOUND') return 404;
  return error.code === 'INVALID_ARGUMENT' ? 400 : 503;
}
