import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { type Agent, request as requestHttps } from 'node:https';
import type { ConnectionOptions } from 'node:tls';
import type { z } from 'zod';
import type { Closed } from '../../pool/moves.ts';
import { DataLoss, HoldfastError, NotFound } from '../../volume/errors.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import { readText } from '../../volume/flow/read-text.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import type { SnapshotId } from '../../volume/id.ts';
import type { Answer, Arrived, Fence, Request } from '../../volume/move/rule.ts';
import { inOneSentence, parseJsonInput } from '../../volume/parse-input.ts';
import type { Piece } from '../copy.ts';
import type { PeerMove } from '../mover.ts';
import {
  type MoveSource,
  NotConnected,
  patiently,
  type Reading,
  type ReadRequest,
  type SourcePlan,
  type SourceSight,
} from '../source.ts';
import { type Frame, FramesAhead } from './frames.ts';
import { ReadConnection } from './read-connection.ts';
import type { ReadTurns } from './read-turns.ts';
import {
  closedIn,
  errorOf,
  frameTypes,
  longestBodyBytes,
  lost,
  type Operation,
  placeOut,
  recordIn,
  sightIn,
  silentMs,
  told,
} from './wire.ts';

/** The connections to another node for all but its streams. */
export interface Agents {
  readonly calls: Agent;
  /** For those that wait for a while at the other node. */
  readonly waits: Agent;
}

export interface NodeSourceParts {
  readonly move: PeerMove;
  readonly host: string;
  readonly port: number;
  /** Shows this node's certificate, and believes the other node by its own. */
  readonly secure: ConnectionOptions;
  readonly agents: Agents;
  readonly turns: ReadTurns;
  readonly objects: ObjectQueue;
  readonly signal: AbortSignal;
}

const beatMs = 10_000;

/** Another node that a volume leaves: its part is done there, and each answer belongs to a request that waits for it here. */
export class NodeSource implements MoveSource {
  readonly #parts: NodeSourceParts;
  #beat: Disposable | undefined;
  /** Ends the turn of this move to read. It stays until the move has ended once its volume is fenced. */
  #turn: Disposable | undefined;
  #sight: SourceSight | undefined;
  #isFenced = false;
  #isQueued = false;

  constructor(parts: NodeSourceParts) {
    this.#parts = parts;
  }

  get node(): string {
    return this.#parts.move.node;
  }

  get title(): string {
    return `node ${this.node}`;
  }

  get isQueued(): boolean {
    return this.#isQueued;
  }

  /** A driver that is older answers at once. */
  async look(idleWithinMs?: number): Promise<SourceSight | undefined> {
    const { sight } = await this.#call('look', { idleWithinMs }, told.sight);
    this.#sight = sight && this.#mine(sightIn(sight));
    return this.#sight;
  }

  async describe(): Promise<SourcePlan | undefined> {
    const { plan } = await this.#call('describe', {}, told.plan);
    if (plan === undefined) return undefined;
    const { pool, snapshots, usedBytes, ...sight } = plan;
    return { ...this.#mine(sightIn(sight)), pool, snapshots, usedBytes };
  }

  async hasSnapshot(snapshot: SnapshotId): Promise<boolean> {
    return (await this.#call('has-snapshot', { snapshot }, told.hasSnapshot)).isThere;
  }

  async takeSnapshot(snapshot: SnapshotId): Promise<void> {
    await this.#takeTurn(this.#isIdle);
    try {
      await this.#call('take-snapshot', { snapshot }, told.done);
    } catch (error) {
      this.#endTurn();
      throw error;
    }
  }

  async removeSnapshot(snapshot: SnapshotId): Promise<void> {
    await this.#call('remove-snapshot', { snapshot }, told.done);
  }

  async removeSnapshots(): Promise<void> {
    await this.#call('remove-snapshots', {}, told.done);
  }

  async close({ fenceId }: Pick<Fence, 'fenceId'>): Promise<Closed | undefined> {
    // A volume in use is asked again soon, and keeps no turn from the others.
    if (!this.#isMine && !this.#isIdle && this.#parts.turns.areTaken(true)) return undefined;
    await this.#takeTurn(true);
    try {
      const { closed } = await this.#call('close', { fenceId }, told.closed);
      this.#isFenced = closed !== undefined;
      return closed && this.#closed(closed);
    } finally {
      this.#endTurn();
    }
  }

  #closed(closed: z.infer<typeof told.closed>['closed'] & object): Closed {
    // The bytes that have come are still being written here, for any time: a source ends the fence of a silent target.
    this.#beat ??= this.#beating();
    return this.#mine(closedIn(closed));
  }

  #beating(): Disposable {
    const timer = setInterval(() => void this.look().catch(() => undefined), beatMs).unref();
    return { [Symbol.dispose]: () => clearInterval(timer) };
  }

  /** No pod uses the volume, and one may wait for it. */
  get #isIdle(): boolean {
    return this.#sight?.isUsed === false;
  }

  /** The fence of this move stands, as a try before this one has left it. */
  get #isMine(): boolean {
    return this.#sight?.state.mark.fence?.moveId === this.#parts.move.moveId;
  }

  end(): void {
    this.#beat?.[Symbol.dispose]();
    this.#isFenced = false;
    this.#endTurn();
  }

  async #takeTurn(isUrgent: boolean): Promise<void> {
    if (this.#turn !== undefined) return;
    const { signal, turns } = this.#parts;
    if (this.#isMine) {
      this.#turn = turns.takeAgain();
      return;
    }
    this.#isQueued = turns.areTaken(isUrgent);
    // A source gives up a target that is silent.
    using _beat = this.#isQueued ? this.#beating() : undefined;
    try {
      this.#turn = await turns.take(isUrgent, signal);
    } finally {
      this.#isQueued = false;
    }
  }

  #endTurn(): void {
    if (this.#isFenced) return;
    this.#turn?.[Symbol.dispose]();
    this.#turn = undefined;
  }

  async open(): Promise<void> {
    await this.#call('open', {}, told.done);
  }

  async read(request: ReadRequest): Promise<Reading> {
    await this.#takeTurn(request.of === undefined || this.#isIdle);
    try {
      const reading = await this.#read(request);
      const end = async () => {
        await reading[Symbol.asyncDispose]();
        this.#endTurn();
      };
      return { ...reading, [Symbol.asyncDispose]: end };
    } catch (error) {
      this.#endTurn();
      throw error;
    }
  }

  async #read({ fromBytes, of, place, signal }: ReadRequest): Promise<Reading> {
    const { host, port, secure } = this.#parts;
    const ask = encodeURIComponent(JSON.stringify({ ...of, fromBytes: fromBytes.toString(), ...placeOut(place) }));
    const path = `${this.#path('read')}?ask=${ask}`;
    const connection = await ReadConnection.open({ host, port, secure, path, signal, title: this.title });
    try {
      const frames = new FramesAhead(connection);
      const { endBytes, record: text, totalBytes } = headOf(await nextFrame(frames));
      const record = recordIn(text);
      this.#mine({ record });
      // The source walks a tree from its beginning.
      const firstBytes = place === undefined ? fromBytes : 0n;
      return {
        ...{ record, endBytes, totalBytes, pieces: piecesIn(frames, firstBytes, endBytes) },
        [Symbol.asyncDispose]: async () => connection[Symbol.dispose](),
      };
    } catch (error) {
      connection[Symbol.dispose]();
      throw error;
    }
  }

  async handOver({ fenceId }: Request, commit: (answer: Answer) => Promise<void>): Promise<void> {
    const { moveId } = this.#parts.move;
    const answer = await this.#call('give', { fenceId }, told.answer);
    await patiently(this.#parts, [this.#parts.move.id], () => commit(answer));
    await this.settle({ moveId, generation: answer.generation });
  }

  async settle({ generation }: Arrived): Promise<void> {
    await this.#call('settle', { generation }, told.done);
  }

  async takeBack(generation: number): Promise<void> {
    await this.#call('take-back', { generation }, told.done);
  }

  /** @throws NotFound if it is the record of another volume: a node speaks for the one that moves, and for no other */
  #mine<T extends { readonly record: { readonly id: string } }>(answer: T): T {
    if (answer.record.id === this.#parts.move.id) return answer;
    throw new NotFound(`node ${this.node} has answered for another volume than ${this.#parts.move.id}.`);
  }

  async #call<T>(operation: Operation, body: object, schema: z.ZodType<T>): Promise<T> {
    const answer = await this.#send(operation, body, this.#parts.signal);
    if (answer.statusCode !== 200) throw await refusalIn(answer);
    const parsed = parseJsonInput(schema, await textOf(answer));
    if ('data' in parsed) return parsed.data;
    throw new NotConnected(`node ${this.node} has answered what cannot be read (${inOneSentence(parsed.mistakes)}).`);
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
      throw lost(this.title, error);
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

function headOf(frame: Frame): z.infer<typeof told.reading> {
  if (frame.type !== frameTypes.head) throw new DataLoss('the other node has sent pieces of nothing.');
  return jsonIn(told.reading, frame);
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
