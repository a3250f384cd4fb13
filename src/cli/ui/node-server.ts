import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { AdminClient, AdminError } from '../../admin/client.ts';
import type { Config } from '../../config/config.ts';
import { explain } from '../../kernel/call/explain.ts';
import { type Answer, sendAnswer } from '../../page/answer.ts';
import { isFromElsewhere, pageFileIn, sendPageFile } from '../../page/files.ts';
import { askedLists, boardLists } from '../../page/messages.ts';
import { sendBoard } from '../../page/stream.ts';
import { httpServer, listen } from '../../sockets/http-server.ts';
import { version } from '../../version.ts';
import { HoldfastError, InvalidArgument, NotFound } from '../../volume/errors.ts';
import { lookFor } from '../fleet/look.ts';
import { problemLine } from '../output/output.ts';
import { codeOf } from '../output/problem-code.ts';
import { Doorkeeper, isForUs } from './doorkeeper.ts';
import { NodeWatch } from './node-watch.ts';

export interface NodeServerOptions {
  readonly config: Config;
  /** 0: any free one. */
  readonly port: number;
  /** Called with each address that opens the page once: at the start, and when the last one was used. */
  readonly onAddress: (address: string) => void;
}

/** Serves the page of this node on the loopback device, to the user that has the printed address. */
export class NodeServer {
  readonly #options: NodeServerOptions;
  readonly #door = new Doorkeeper();
  readonly #server: Server;
  #watch: NodeWatch | undefined;
  #pages = 0;

  constructor(options: NodeServerOptions) {
    this.#options = options;
    this.#server = httpServer({
      answer: (request, response) => void this.#answer(request, response),
      refuse: ({ reason }) => ({ contentType: 'text/plain; charset=utf-8', body: `${reason}\n` }),
    });
  }

  /** @throws if the port is taken */
  async listen(): Promise<void> {
    await listen(this.#server, { port: this.#options.port, host: '127.0.0.1' });
    this.#sayAddress();
  }

  async close(): Promise<void> {
    this.#watch?.[Symbol.dispose]();
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  get #port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  /** In the fragment, which browsers never send. */
  #sayAddress(): void {
    this.#options.onAddress(`http://127.0.0.1:${this.#port}/ui/#code=${this.#door.code}`);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.resume();
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const [path = '', query = ''] = (request.url ?? '').split('?', 2);
    try {
      if (!isForUs(request, this.#port)) return await this.#refuse(response, 421, 'This server has another address.');
      if (path === '/') {
        response.writeHead(302, { location: '/ui/', 'cache-control': 'no-store' }).end();
        return;
      }
      const file = pageFileIn(path);
      if (file !== undefined) return await sendPageFile(request, response, file);
      if (isFromElsewhere(request)) {
        return await this.#refuse(response, 403, 'A page of another site has no business here.');
      }
      if (path === '/v1/session' && request.method === 'POST') return await this.#open(request, response);
      if (!this.#door.knows(headerIn(request, 'x-holdfast-token'))) {
        return await this.#refuse(response, 401, 'The address has been used: the terminal has a new one.');
      }
      if (path === '/v1/stream' && request.method === 'GET') return await this.#stream(request, response, gone.signal);
      const answer = await this.#command(request.method ?? '', path, new URLSearchParams(query));
      await sendAnswer(response, 200, answer, gone.signal);
    } catch (error) {
      if (gone.signal.aborted || response.headersSent) return void response.destroy();
      await this.#refuse(response, error instanceof NotFound ? 404 : 503, explain(error), error);
    }
  }

  async #open(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const token = this.#door.open(headerIn(request, 'x-holdfast-code'));
    if (token === undefined) {
      return this.#refuse(response, 401, 'The address has been used: the terminal has a new one.');
    }
    response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store' });
    response.end(JSON.stringify({ token }));
    this.#sayAddress();
  }

  async #stream(request: IncomingMessage, response: ServerResponse, gone: AbortSignal): Promise<void> {
    const { driverName: driver } = this.#options.config;
    this.#pages++;
    this.#watch ??= new NodeWatch(this.#options.config);
    try {
      await sendBoard(request, response, {
        board: this.#watch.board,
        hello: {
          ...{ kind: 'hello', scope: 'node', driver, version, now: new Date().toISOString() },
          ...{ lists: [...boardLists, ...askedLists], may: ['restore', 'purge', 'cancel'] },
        },
        lists: boardLists,
        ended: new Promise(() => undefined),
        gone,
      });
    } finally {
      this.#pages--;
      if (this.#pages === 0) {
        this.#watch[Symbol.dispose]();
        this.#watch = undefined;
      }
    }
  }

  /** The lists that are asked for, and the changes. @throws HoldfastError, AdminError */
  async #command(method: string, path: string, query: URLSearchParams): Promise<Answer> {
    const { config } = this.#options;
    const volume = query.get('volume') ?? undefined;
    const client = new AdminClient(config.adminSocketPath);
    const change = (result: object) => {
      this.#watch?.look();
      return answerOf(result);
    };
    const asked = askedLists.find((list) => method === 'GET' && path === `/v1/${list}`);
    if (asked === 'disks') return this.#list(asked, asked, undefined);
    if (asked !== undefined) {
      if (volume === undefined) throw new InvalidArgument('The list of holders needs a volume.');
      return this.#list(asked, 'volumes', volume);
    }
    switch (`${method} ${path}`) {
      case 'POST /v1/trash/restore':
        return change(await client.restore(volume ?? ''));
      case 'POST /v1/trash/purge':
        // Without an id it would be the whole trash.
        if (volume === undefined || volume === '') throw new InvalidArgument('trash purge needs a volume');
        return change(await client.purge(volume));
      case 'POST /v1/moves/cancel':
        return change(await client.cancelMove(volume ?? ''));
      default:
        throw new NotFound('There is no such list or change.');
    }
  }

  /** The same answer as that of a controller with this node alone. */
  async #list(list: string, key: string, volume: string | undefined): Promise<Answer> {
    const { config } = this.#options;
    const looked = await lookFor(config)({ list, volume });
    const items = (looked?.items ?? []).map((item) => ({ ...JSON.parse(item), node: config.nodeId }));
    return answerOf({ [key]: items, problems: looked?.problems ?? [], missing: [] });
  }

  async #refuse(response: ServerResponse, status: number, message: string, error?: unknown): Promise<void> {
    const code = error === undefined ? 'PERMISSION_DENIED' : codeOf(error);
    const text = problemLine(code, message, { json: true });
    const isKnown = error === undefined || error instanceof HoldfastError || error instanceof AdminError;
    const shown = isKnown ? text : problemLine('INTERNAL', message, { json: true });
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    await sendAnswer(response, status, { exitCode: 1, lines: [{ to: 'problem', text: shown }] }, gone.signal).catch(
      () => undefined,
    );
  }
}

function answerOf(result: object): Answer {
  return { exitCode: 0, lines: [{ to: 'result', text: JSON.stringify(result) }] };
}

function headerIn({ headers }: IncomingMessage, name: string): string {
  const value = headers[name];
  return typeof value === 'string' ? value : '';
}
