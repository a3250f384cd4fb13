import { request as plainRequest } from 'node:http';
import { gunzipSync } from 'node:zlib';
import type { StreamMessage } from '../../../src/page/messages.ts';

export interface Got {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
  readonly text: string;
}

export interface Asking {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** One request, with any Host: fetch lets nobody choose it. */
export function get(url: string, { headers = {}, method = 'GET' }: Asking = {}): Promise<Got> {
  return new Promise((resolve, reject) => {
    const outgoing = plainRequest(url, { method, headers, agent: false }, async (response) => {
      try {
        const pieces: Buffer[] = [];
        for await (const piece of response) pieces.push(piece);
        const body = Buffer.concat(pieces);
        const text = (response.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body).toString();
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body, text });
      } catch (error) {
        reject(error);
      }
    });
    outgoing.on('error', reject);
    outgoing.end();
  });
}

/** Reads a stream until its messages are enough. */
export async function streamed(
  url: string,
  token: string,
  isEnough: (messages: readonly StreamMessage[]) => boolean,
): Promise<readonly StreamMessage[]> {
  const stop = new AbortController();
  const response = await fetch(url, { headers: { 'x-holdfast-token': token }, signal: stop.signal });
  if (response.body === null || response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  const messages: StreamMessage[] = [];
  let text = '';
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const event = text.slice(0, end);
      text = text.slice(end + 2);
      if (event.startsWith('data: ')) messages.push(JSON.parse(event.slice(6)));
    }
    if (isEnough(messages)) break;
  }
  stop.abort();
  return messages;
}
