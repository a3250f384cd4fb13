import { type IncomingMessage, request as plainRequest } from 'node:http';
import { request as secureRequest } from 'node:https';
import { readText } from '../../volume/flow/read-text.ts';

export interface HttpRequest {
  readonly method: 'DELETE' | 'GET' | 'PATCH' | 'POST' | 'PUT';
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly timeoutMs: number;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

/** No answer came, or not all of it. The request may have been carried out. */
export class NoAnswer extends Error {
  /** True if the request cannot have arrived. */
  readonly isRefused: boolean;

  constructor(host: string, why: string, isRefused: boolean) {
    super(`${host} gave no answer: ${why}`);
    this.isRefused = isRefused;
  }
}

/** A list of a thousand disks has 2 MiB. */
const longestBodyBytes = 64 << 20;

/**
 * Requests have a token or a signature: without TLS they do not leave the machine.
 * @param near other addresses of it
 */
export function isSafe({ hostname, protocol }: URL, near: readonly string[] = []): boolean {
  const isHere = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname) || near.includes(hostname);
  return protocol === 'https:' || (protocol === 'http:' && isHere);
}

/** A request to an API of a cloud, over node:http: Node's fetch takes 8 MiB of memory. @throws NoAnswer */
export function sendHttp({ body, headers = {}, method, timeoutMs, url }: HttpRequest): Promise<HttpAnswer> {
  const send = url.protocol === 'https:' ? secureRequest : plainRequest;
  return new Promise((resolve, reject) => {
    let isConnected = false;
    const fail = (error: Error) => reject(new NoAnswer(url.host, error.message, !isConnected));
    const length = body === undefined ? {} : { 'content-length': `${Buffer.byteLength(body)}` };
    const signal = AbortSignal.timeout(timeoutMs);
    const outgoing = send(url, { method, headers: { ...headers, ...length }, signal }, (response) => {
      readText(response, longestBodyBytes, () => new Error('its answer is larger than 64 MiB')).then((text) => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
      }, fail);
    });
    outgoing.on('socket', (socket) => {
      // One of before.
      if (!socket.connecting) {
        isConnected = true;
        return;
      }
      socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => {
        isConnected = true;
      });
    });
    outgoing.on('error', (error) => {
      fail(signal.aborted ? new Error(`none within ${timeoutMs / 1000} s`) : error);
    });
    outgoing.end(body);
  });
}
