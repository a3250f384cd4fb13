import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { createInterface } from 'node:readline';
import { z } from 'zod';

const kubeconfig = z.object({
  clusters: z.tuple([z.object({ cluster: z.object({ server: z.string(), 'certificate-authority': z.string() }) })]),
  users: z.tuple([z.object({ user: z.object({ token: z.string() }) })]),
});

const event = z.object({
  object: z.object({
    metadata: z.object({ name: z.string() }),
    status: z.object({ phase: z.string().optional() }).optional(),
  }),
});

/** An API server as the administrator sees it, without a kubectl for each request: the bench makes thousands. */
export class Kubernetes implements Disposable {
  readonly #url: string;
  readonly #token: string;
  readonly #agent: Agent;
  readonly #watches = new Set<IncomingMessage>();
  #requests = 0;

  constructor(kubeconfigPath: string) {
    const { clusters, users } = kubeconfig.parse(JSON.parse(readFileSync(kubeconfigPath, 'utf8')));
    const { server, 'certificate-authority': authority } = clusters[0].cluster;
    this.#url = server;
    this.#token = users[0].user.token;
    this.#agent = new Agent({ ca: readFileSync(authority), keepAlive: true, maxSockets: 16 });
  }

  /** Of this object so far. */
  get requests(): number {
    return this.#requests;
  }

  async create(path: string, body: object): Promise<unknown> {
    return JSON.parse(await textOf(await this.#send('POST', path, body)));
  }

  async get(path: string): Promise<string> {
    return textOf(await this.#send('GET', path));
  }

  /** How many requests of others, this object's apart, the API server has answered since it started. */
  async requestsOfOthers(): Promise<number> {
    const samples = (await this.get('/metrics')).matchAll(/^apiserver_request_total\{.*\} (\S+)$/gm);
    let all = 0;
    for (const [, value] of samples) all += Number(value);
    return all - this.#requests;
  }

  /**
   * Calls back when a claim of the namespace is bound, perhaps more than once. The API server ends a watch that it thinks
   * does not keep up; the next one begins with all that there is.
   */
  async watchBound(namespace: string, onBound: (name: string) => void): Promise<void> {
    const response = await this.#send('GET', `/api/v1/namespaces/${namespace}/persistentvolumeclaims?watch=1`);
    this.#watches.add(response);
    const lines = createInterface({ input: response });
    lines.on('line', (line) => {
      const { metadata, status } = event.parse(JSON.parse(line)).object;
      if (status?.phase === 'Bound') onBound(metadata.name);
    });
    lines.on('close', () => {
      if (this.#watches.delete(response)) void this.watchBound(namespace, onBound);
    });
  }

  [Symbol.dispose](): void {
    const watches = [...this.#watches];
    this.#watches.clear();
    for (const watch of watches) watch.destroy();
    this.#agent.destroy();
  }

  #send(method: string, path: string, body?: object): Promise<IncomingMessage> {
    this.#requests++;
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' };
      const sent = request(new URL(path, this.#url), { method, headers, agent: this.#agent }, (response) => {
        const { statusCode = 0 } = response;
        if (statusCode < 300) resolve(response);
        else
          void textOf(response).then((text) => reject(new Error(`${method} ${path}: ${statusCode} ${text}`)), reject);
      });
      sent.on('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** Does the work for each, some at a time. */
export async function forEach<T>(
  items: readonly T[],
  atATime: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = items.values();
  await Promise.all(
    Array.from({ length: atATime }, async () => {
      for (const item of left) await work(item);
    }),
  );
}
