import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { constants, createGzip } from 'node:zlib';
import { pause } from '../volume/flow/pause.ts';
import type { Board } from './board.ts';
import type { BoardList, Hello, Refused } from './messages.ts';

/** Time in which changes gather before they are sent. */
const gatherMs = 250;
/** Longest silence: proxies and the page know by it that the stream is alive. */
const beatMs = 10_000;
const pieceBytes = 128 * 1024;

export interface StreamOptions {
  readonly board: Board;
  readonly hello: Hello;
  readonly lists: readonly BoardList[];
  /** Ends the stream, with a last message if there is a reason for the viewer. */
  readonly ended: Promise<Refused | undefined>;
  /** Aborted when the client is gone. */
  readonly gone: AbortSignal;
}

/**
 * Sends the lists of a board and then each change, as server-sent events, until the client goes. A slow client gets fewer
 * and larger messages: only the version that it has is kept for it.
 */
export async function sendBoard(
  request: IncomingMessage,
  response: ServerResponse,
  { board, ended, gone, hello, lists }: StreamOptions,
): Promise<void> {
  const out = new Events(request, response, gone);
  let last: Refused | undefined;
  let hasEnded = false;
  const end = new AbortController();
  void ended.then((refused) => {
    last = refused;
    hasEnded = true;
    end.abort();
  });
  const stop = AbortSignal.any([gone, end.signal]);
  await out.send([JSON.stringify(hello)]);
  let sent = 0;
  while (!gone.aborted && !hasEnded) {
    const { version } = board;
    if (version !== sent) {
      // The client has missed too many removals: it begins with empty lists, as after its first hello.
      if (!board.knows(sent)) {
        sent = 0;
        await out.send([JSON.stringify(hello)]);
      }
      await out.send(board.since(sent, lists, pieceBytes));
      sent = version;
      await pause(gatherMs, stop);
    } else if (!(await changed(board, stop))) await out.beat();
  }
  if (last !== undefined) await out.send([JSON.stringify(last)]);
  out.end();
}

/** Resolves after a change, or after a while; then with false. */
async function changed(board: Board, stop: AbortSignal): Promise<boolean> {
  const event = new AbortController();
  const unwatch = board.onChange(() => event.abort());
  try {
    await pause(beatMs, AbortSignal.any([stop, event.signal]));
    return event.signal.aborted;
  } finally {
    unwatch();
  }
}

/** An answer of server-sent events, compressed if the client can read it so. */
class Events {
  readonly #target: NodeJS.WritableStream & { flush?: (kind: number, done: () => void) => void };
  readonly #gone: AbortSignal;

  constructor(request: IncomingMessage, response: ServerResponse, gone: AbortSignal) {
    this.#gone = gone;
    const canUnpack = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      // For proxies that would gather an answer before they pass it on.
      'x-accel-buffering': 'no',
      ...(canUnpack ? { 'content-encoding': 'gzip' } : {}),
    });
    if (!canUnpack) this.#target = response;
    else {
      // A higher level takes twice the time, and saves a tenth of the bytes.
      const gzip = createGzip({ level: 3 });
      gzip.pipe(response);
      response.once('close', () => gzip.destroy());
      gzip.once('error', () => response.destroy());
      this.#target = gzip;
    }
  }

  async send(messages: Iterable<string>): Promise<void> {
    for (const message of messages) {
      if (this.#gone.aborted) return;
      if (!this.#target.write(`data: ${message}\n\n`)) await this.#drained();
    }
    await this.#flush();
  }

  /** A comment, which says nothing. */
  async beat(): Promise<void> {
    if (this.#gone.aborted) return;
    this.#target.write(':\n\n');
    await this.#flush();
  }

  end(): void {
    this.#target.end();
  }

  async #drained(): Promise<void> {
    await once(this.#target, 'drain', { signal: this.#gone }).catch((error: unknown) => {
      if (!this.#gone.aborted) throw error;
    });
  }

  async #flush(): Promise<void> {
    const { flush } = this.#target;
    if (flush === undefined || this.#gone.aborted) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#gone.removeEventListener('abort', done);
        resolve();
      };
      this.#gone.addEventListener('abort', done, { once: true });
      flush.call(this.#target, constants.Z_SYNC_FLUSH, done);
    });
  }
}
