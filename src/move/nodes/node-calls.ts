import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { type Agent, request as requestHttps } from 'node:https';
import type { ConnectionOptions } from 'node:tls';
import type { z } from 'zod';
import { DataLoss, HoldfastError } from '../../volume/errors.ts';
import { readText } from '../../volume/flow/read-text.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import { inOneSentence, parseJsonInput } from '../../volume/parse-input.ts';
import type { Piece } from '../copy.ts';
import type { PeerMove } from '../peers.ts';
import { NotConnected } from '../source.ts';
import { type Frame, FramesAhead } from './frames.ts';
import { ReadConnection } from './read-connection.ts';
import {
  errorOf,
  frameTypes,
  longestBodyBytes,
  lost,
  type Operation,
  type ReadOperation,
  silentMs,
  told,
} from './wire.ts';

/** The connections to another node for all but its streams. */
export interface Agents {
  readonly calls: Agent;
  /** For those that wait for a while at the other node. */
  readonly waits: Agent;
}

export interface NodeCallsParts {
  readonly move: PeerMove;
  readonly host: string;
  readonly port: number;
  /** Shows this node's certificate, and believes the other node by its own. */
  readonly secure: ConnectionOptions;
  readonly agents: Agents;
  readonly signal: AbortSignal;
}

interface ReadWish<T> {
  readonly schema: z.ZodType<T>;
  /** Where the first piece may begin. */
  readonly firstBytes: bigint;
  readonly signal: AbortSignal;
}

/** The answer to a read. */
interface Stream<T> extends AsyncDisposable {
  readonly head: T;
  readonly pieces: AsyncIterable<Piece>;
}

/** The calls to another node for one move. */
export class NodeCalls {
  readonly #parts: NodeCallsParts;

  constructor(parts: NodeCallsParts) {
    this.#parts = parts;
  }

  get #node(): string {
    return this.#parts.move.node;
  }

  get #title(): string {
    return `node ${this.#node}`;
  }

  async call<T>(operation: Operation, body: object, schema: z.ZodType<T>): Promise<T> {
    const answer = await this.#send(operation, body, this.#parts.signal);
    if (answer.statusCode !== 200) throw await refusalIn(answer);
    const parsed = parseJsonInput(schema, await textOf(answer));
    if ('data' in parsed) return parsed.data;
    throw new NotConnected(`${this.#title} has answered what cannot be read (${inOneSentence(parsed.mistakes)}).`);
  }

  /** @throws NotConnected, and what the source has refused it for */
  async read<T extends { readonly endBytes: bigint }>(
    operation: ReadOperation,
    request: object,
    { firstBytes, schema, signal }: ReadWish<T>,
  ): Promise<Stream<T>> {
    const { host, port, secure } = this.#parts;
    const path = `${this.#path(operation)}?ask=${encodeURIComponent(JSON.stringify(request))}`;
    const connection = await ReadConnection.open({ host, port, secure, path, signal, title: this.#title });
    try {
      const frames = new FramesAhead(connection);
      const head = headOf(schema, await nextFrame(frames));
      return {
        ...{ head, pieces: piecesIn(frames, firstBytes, head.endBytes) },
        [Symbol.asyncDispose]: async () => connection[Symbol.dispose](),
      };
    } catch (error) {
      connection[Symbol.dispose]();
      throw error;
    }
  }

  #path(operation: Operation): string {
    const { id, moveId } = this.#parts.move;
    return `/v1/moves/${moveId}/${id}/${operation}`;
  }

  async #send(operation: Operation, body: object, signal: AbortSignal): Promise<IncomingMessage> {
    const { agents, host, port } = this.#parts;
    const text = JSON.stringify(body);
    const agent = 'idleWithinMs' in body && body.idleWithinMs !== undefined ? agents.waits : agents.calls;
    const request = requestHttps({
      ...{ agent, host, port, method: 'POST', path: this.#path(operation), signal },
      headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) },
    });
    request.setTimeout(silentMs, () => request.destroy(new Error(`it did not answer for ${silentMs / 1000} s`)));
    // Also after the answer has begun, which is read to its end or to its failure.
    request.on('error', () => undefined);
    request.end(text);
    try {
      const [answer] = (await once(request, 'response', { signal })) as [IncomingMessage];
      return answer;
    } catch (error) {
      request.destroy();
      signal.throwIfAborted();
      throw lost(this.#title, error);
    }
  }
}

/** The chunks of an answer; a connection that ends too early is one that was lost. */
async function* awaited(answer: IncomingMessage): AsyncGenerator<Buffer, void, void> {
  const title = 'the other node';
  // Silence is noticed here.
  answer.socket.setTimeout(0);
  const chunks: AsyncIterator<Buffer> = answer[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await withTimeout(silentMs, chunks.next());
      if (next === 'late') throw new NotConnected(`${title} has sent nothing for ${silentMs / 1000} s.`);
      if (next.done === true) return;
      yield next.value;
    }
  } catch (error) {
    throw error instanceof HoldfastError ? error : lost(title, error);
  } finally {
    if (!answer.complete) answer.destroy();
  }
}

function textOf(answer: IncomingMessage): Promise<string> {
  const tooLong = () => new NotConnected('the other node has sent too long an answer.');
  return readText(awaited(answer), longestBodyBytes, tooLong);
}

async function refusalIn(answer: IncomingMessage): Promise<Error> {
  const parsed = parseJsonInput(told.refusal, await textOf(answer));
  return 'data' in parsed ? errorOf(parsed.data) : new NotConnected('the other node has refused, without a reason.');
}

async function nextFrame(frames: FramesAhead): Promise<Frame> {
  const frame = await frames.next();
  if (frame.type === frameTypes.refusal) throw errorOf(jsonIn(told.refusal, frame));
  return frame;
}

function headOf<T>(schema: z.ZodType<T>, frame: Frame): T {
  if (frame.type !== frameTypes.head) throw new DataLoss('the other node has sent pieces of nothing.');
  return jsonIn(schema, frame);
}

function jsonIn<T>(schema: z.ZodType<T>, { body }: Frame): T {
  const parsed = parseJsonInput(schema, body.toString());
  if ('data' in parsed) return parsed.data;
  throw new DataLoss(`the other node has sent what cannot be read (${inOneSentence(parsed.mistakes)}).`);
}

/** In order, never touching, within the source: whatever the other node sends. Without the last frame it is not whole. */
async function* piecesIn(frames: FramesAhead, fromBytes: bigint, endBytes: bigint): AsyncGenerator<Piece, void, void> {
  for (let at = fromBytes; ; ) {
    const { body, digest, free, lengthBytes, offsetBytes, type } = await nextFrame(frames);
    if (type === frameTypes.end) return;
    if (type === frameTypes.head) throw new DataLoss('the other node has begun again in the middle.');
    const until = offsetBytes + BigInt(lengthBytes);
    if (offsetBytes < at || lengthBytes === 0 || until > endBytes) {
      throw new DataLoss(
        `the other node has sent a piece at ${offsetBytes} of ${lengthBytes} bytes, out of its order.`,
      );
    }
    at = until;
    const data = type === frameTypes.zeros ? undefined : { bytes: body, digest, free };
    yield { offsetBytes, lengthBytes, data };
  }
}
