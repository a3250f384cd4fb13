import { createServer, type Server } from 'node:http';
import { Agent, request } from 'node:https';
import type { Socket } from 'node:net';
import { serverName } from '../../../src/fleet/tls/material.ts';

/** Where `kubectl proxy` has the view of the controller. */
export const proxyPath = '/api/v1/namespaces/holdfast-system/services/https:holdfast-controller:view/proxy';

/**
 * What stands between a browser and the controller, as far as the page sees it: `kubectl proxy` on the loopback device, and
 * the proxy of the API server behind it. test/deploy has the real ones.
 */
export class ApiProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** The API server's proxy keeps its connections, too. */
  readonly #agent = new Agent({ keepAlive: true });
  /** The controller's port; a test sets it again after a restart. */
  port: number;
  /** Every request that came: the page must send none elsewhere. */
  readonly paths: string[] = [];

  private constructor(port: number) {
    this.port = port;
    this.#server = createServer((incoming, response) => {
      const path = incoming.url ?? '';
      this.paths.push(path);
      if (!path.startsWith(`${proxyPath}/`)) {
        response.writeHead(403).end('Forbidden');
        return;
      }
      const outgoing = request(
        {
          ...{
            host: '127.0.0.1',
            port: this.port,
            servername: serverName,
            rejectUnauthorized: false,
            agent: this.#agent,
          },
          ...{ method: incoming.method, path: path.slice(proxyPath.length), headers: incoming.headers },
        },
        (answer) => {
          response.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(response);
          answer.once('error', () => response.destroy());
          answer.once('close', () => answer.complete || response.destroy());
        },
      );
      outgoing.once('error', () => (response.headersSent ? response.destroy() : response.writeHead(503).end()));
      response.once('close', () => outgoing.destroy());
      incoming.pipe(outgoing);
    });
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  static async start(port: number): Promise<ApiProxy> {
    const proxy = new ApiProxy(port);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', () => resolve()));
    return proxy;
  }

  get origin(): string {
    const address = this.#server.address();
    return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
  }

  /** The address that `kubectl holdfast ui` prints. */
  address(token: string, query = ''): string {
    return `${this.origin}${proxyPath}/ui/${query}#token=${token}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#agent.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
