import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { createServer as createTcpServer, type Socket } from 'node:net';
import { join } from 'node:path';

/** Serves the repositories of a directory over https, as gitweb sites do, with a certificate that it signed itself. */
export class GitServer implements AsyncDisposable {
  readonly url: string;
  readonly certificatePath: string;
  readonly #server: Server;

  private constructor(server: Server, url: string, certificatePath: string) {
    this.#server = server;
    this.url = url;
    this.certificatePath = certificatePath;
  }

  /**
   * Serves `<url>/repositories/…`. `<url>/private/…` asks for a password, `<url>/insecure/…` leads to a server without
   * encryption, and `<url>/local/…` to a path. `<url>/stalled/…` is never answered.
   */
  static async start(directory: string): Promise<GitServer> {
    const key = join(directory, 'key.pem');
    const certificatePath = join(directory, 'certificate.pem');
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
    const files = ['-keyout', key, '-out', certificatePath];
    execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...files, ...subject], {
      stdio: 'ignore',
    });
    chmodSync(certificatePath, 0o644);
    const options = { key: readFileSync(key), cert: readFileSync(certificatePath) };
    const server = createServer(options, (request, response) => answer(directory, request, response));
    server.listen(0, 'localhost');
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the server has no port');
    return new GitServer(server, `https://localhost:${address.port}`, certificatePath);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

function answer(directory: string, request: IncomingMessage, response: ServerResponse): void {
  const { pathname, search } = new URL(request.url ?? '/', 'https://localhost');
  const [, kind = ''] = pathname.split('/');
  switch (kind) {
    case 'repositories':
      runBackend(directory, pathname.slice('/repositories'.length), search.slice(1), request, response);
      return;
    case 'private':
      response.writeHead(401, { 'www-authenticate': 'Basic realm="here"' }).end();
      return;
    case 'insecure':
      response.writeHead(302, { location: `http://localhost:1${pathname}${search}` }).end();
      return;
    case 'stalled':
      // No answer ever comes.
      return;
    case 'local':
      response.writeHead(302, { location: `file://${directory}${pathname.slice('/local'.length)}` }).end();
      return;
    default:
      response.writeHead(404).end();
  }
}

/** git-http-backend(1) is a CGI program. */
function runBackend(
  directory: string,
  path: string,
  query: string,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const backend = spawn('git', ['-c', 'safe.directory=*', 'http-backend'], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      HOME: '/nonexistent',
      GIT_PROJECT_ROOT: directory,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: path,
      QUERY_STRING: query,
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      HTTP_GIT_PROTOCOL: `${request.headers['git-protocol'] ?? ''}`,
      GIT_PROTOCOL: `${request.headers['git-protocol'] ?? ''}`,
      REMOTE_ADDR: '127.0.0.1',
    },
  });
  request.pipe(backend.stdin);
  const chunks: Buffer[] = [];
  backend.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  backend.once('close', () => {
    const output = Buffer.concat(chunks);
    const end = output.indexOf('\r\n\r\n');
    for (const line of output.toString('latin1', 0, end).split('\r\n')) {
      const [name = '', value = ''] = line.split(': ');
      if (name.toLowerCase() === 'status') response.statusCode = Number.parseInt(value, 10);
      else response.setHeader(name, value);
    }
    response.end(output.subarray(end + 4));
  });
}

/** Takes connections, and says nothing. */
export class SilentServer implements Disposable {
  readonly #server = createTcpServer();
  readonly #connections: Socket[] = [];
  readonly #asked: Promise<Socket[]> = once(this.#server, 'connection');

  static async start(): Promise<SilentServer> {
    const silent = new SilentServer();
    silent.#server.on('connection', (connection) => silent.#connections.push(connection));
    silent.#server.listen(0, 'localhost');
    await once(silent.#server, 'listening');
    return silent;
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the server has no port');
    return `https://localhost:${address.port}/repository`;
  }

  async asked(): Promise<void> {
    await this.#asked;
  }

  /** Of those who asked, the first is given up. */
  async hangUp(): Promise<void> {
    const [connection] = await this.#asked;
    connection?.destroy();
  }

  /** Gives up all who have asked, and takes nobody any more. */
  refuse(): void {
    for (const connection of this.#connections) connection.destroy();
    this.#server.close();
  }

  [Symbol.dispose](): void {
    this.#server.close();
  }
}
