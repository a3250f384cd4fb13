import { readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { createInterface } from 'node:readline';
import { Unavailable } from '../../volume/errors.ts';
import { readText } from '../../volume/flow/read-text.ts';

/** The address and credentials of the API server. */
export interface ApiPlace {
  readonly url: URL;
  /** Paths of files: the kubelet writes new ones when they change. */
  readonly authorityPath: string;
  readonly tokenPath: string;
}

/** The API server refused the request. */
export class ApiRefusal extends Unavailable {
  readonly status: number;
  /**
   * Kubernetes' reason, such as NotFound; empty: the answer is not from Kubernetes, but e.g. from a proxy before it.
   */
  readonly reason: string;

  constructor(what: string, status: number, body: unknown) {
    super(`Kubernetes did not ${what}: ${status} ${textIn(body, 'message') ?? 'without a reason'}`);
    this.status = status;
    this.reason = textIn(body, 'kind') === 'Status' ? (textIn(body, 'reason') ?? '') : '';
  }
}

const timeoutMs = 15_000;
/** A list of a thousand nodes, as metadata alone, has 1 MiB. */
const longestBodyBytes = 64 * 1024 * 1024;

export interface ApiCall {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH';
  readonly path: string;
  readonly body?: object;
  readonly accept?: string;
  /** Type of the body. */
  readonly contentType?: string;
  /** The action for the message when it fails: `review the token`. */
  readonly what: string;
}

/**
 * The few requests that a controller has for Kubernetes, over node:https. The usual client has 3 MiB and takes 43 MiB of
 * memory (docs/dependencies.md).
 */
export class KubernetesApi {
  readonly #place: ApiPlace;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 16 });

  constructor(place: ApiPlace) {
    this.#place = place;
  }

  /** @throws ApiRefusal, Unavailable */
  async call(call: ApiCall): Promise<unknown> {
    const response = await this.#send(call, timeoutMs);
    const text = await bodyOf(response);
    const body = parse(text);
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 300) return body;
    throw new ApiRefusal(call.what, status, body);
  }

  /** Yields the lines of a watch, each an event; ends when the server or the signal ends it. */
  async *watch(call: ApiCall, signal: AbortSignal): AsyncGenerator<unknown, void, void> {
    const response = await this.#send(call, undefined, signal);
    try {
      const status = response.statusCode ?? 0;
      if (status !== 200) throw new ApiRefusal(call.what, status, parse(await bodyOf(response)));
      for await (const line of createInterface({ input: response, crlfDelay: Number.POSITIVE_INFINITY })) {
        yield parse(line);
      }
    } finally {
      response.destroy();
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  async #send(call: ApiCall, limitMs: number | undefined, signal?: AbortSignal): Promise<IncomingMessage> {
    const { accept = 'application/json', body, contentType = 'application/json', method = 'GET', path, what } = call;
    const [ca, token] = await Promise.all([
      readFile(this.#place.authorityPath),
      readFile(this.#place.tokenPath, 'utf8'),
    ]).catch((error: unknown) => {
      throw new Unavailable(`Kubernetes cannot be asked to ${what}: ${reasonOf(error)}`);
    });
    const text = body === undefined ? undefined : JSON.stringify(body);
    return new Promise((resolve, reject) => {
      const outgoing = request(
        new URL(path, this.#place.url),
        {
          method,
          ca,
          agent: this.#agent,
          ...(limitMs === undefined ? {} : { timeout: limitMs }),
          ...(signal === undefined ? {} : { signal }),
          headers: {
            accept,
            authorization: `Bearer ${token.trim()}`,
            ...(text === undefined ? {} : { 'content-type': contentType, 'content-length': Buffer.byteLength(text) }),
          },
        },
        resolve,
      );
      outgoing.on('timeout', () => outgoing.destroy(new Error('it does not answer')));
      outgoing.on('error', (error) => {
        reject(signal?.aborted === true ? error : new Unavailable(`Kubernetes did not ${what}: ${error.message}`));
      });
      outgoing.end(text);
    });
  }
}

function bodyOf(response: IncomingMessage): Promise<string> {
  const tooLong = () => new Unavailable('The answer of Kubernetes is larger than 64 MiB.');
  return readText(response, longestBodyBytes, tooLong);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Reads a field of a Status object; other answers yield nothing. */
function textIn(body: unknown, field: string): string | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const value: unknown = Reflect.get(body, field);
  return value === undefined ? undefined : String(value).slice(0, 200);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown';
}
