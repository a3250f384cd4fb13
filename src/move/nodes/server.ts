import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { TLSSocket } from 'node:tls';
import type { z } from 'zod';
import type { PoolLog } from '../../pool/log.ts';
import { InvalidArgument, NotFound } from '../../volume/errors.ts';
import { readText } from '../../volume/flow/read-text.ts';
import { parseVolumeId } from '../../volume/id.ts';
import { inOneSentence, parseJsonInput } from '../../volume/parse-input.ts';
import { serializeRecord } from '../../volume/record.ts';
import type { PeerMove } from '../mover.ts';
import type { PoolSource, ReadRequest } from '../source.ts';
import { switched } from '../switched.ts';
import type { Leavings } from './leavings.ts';
import { type NodeIdentity, peerName } from './names.ts';
import {
  asked,
  closedOut,
  frameHead,
  frameTypes,
  jsonFrame,
  longestBodyBytes,
  NotAdmitted,
  type Operation,
  operations,
  pieceFrame,
  planOut,
  refusalOf,
  sightOut,
} from './wire.ts';

export interface GivingServerOptions {
  readonly host: string | undefined;
  readonly port: number;
  readonly identity: NodeIdentity;
  readonly leavings: Leavings;
  readonly log: PoolLog;
}

/** A connection for each read, and one for the other calls, of a few moves at a time. */
const maxConnections = 128;
const requestMs = 10_000;
/** A target that takes nothing for longer is not there any more. */
const slowestMs = 5 * 60_000;
const beatMs = 5_000;

/**
 * The port where other nodes fetch volumes. No connection is accepted without a certificate of the controller's authority, and each
 * request is compared with the admission of the controller: this volume, this move, this node.
 */
export class GivingServer {
  readonly #options: GivingServerOptions;
  readonly #server: Server;

  constructor(options: GivingServerOptions) {
    this.#options = options;
    this.#server = createServer({
      ...secured(options.identity),
      requestCert: true,
      rejectUnauthorized: true,
      minVersion: 'TLSv1.3',
      headersTimeout: requestMs,
      requestTimeout: requestMs,
      maxHeaderSize: 8 * 1024,
      requireHostHeader: false,
      handshakeTimeout: requestMs,
      keepAliveTimeout: 30_000,
    });
    this.#server.maxConnections = maxConnections;
    this.#server.on('request', (request, response) => void this.#answer(request, response));
    this.#server.on('connection', (socket) => socket.setKeepAlive(true, 10_000));
    this.#server.on('clientError', (_error, socket) => socket.destroy());
  }

  async listen(): Promise<number> {
    const { host, port } = this.#options;
    this.#server.listen({ port, host });
    await once(this.#server, 'listening');
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  /** For new connections. */
  renew(identity: NodeIdentity): void {
    this.#server.setSecureContext(secured(identity));
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { leavings, log } = this.#options;
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    response.on('error', () => gone.abort());
    try {
      const { id, moveId, operation } = targetOf(request);
      // Without an admission nothing is said, not even whether the volume is here.
      const { ended, node } = leavings.admitted(id, moveId, operation);
      requirePeer(request, node);
      if (ended !== undefined) throw ended;
      if (operation !== 'describe') leavings.heard(id);
      const body = await readText(request, longestBodyBytes, () => new InvalidArgument('the request is too long.'));
      await new Answering(this.#options, { id, moveId, node }, response, gone.signal).run(operation, body);
    } catch (error) {
      if (gone.signal.aborted) return;
      const refusal = refusalOf(error);
      if (refusal.code === 'INTERNAL') log.error({ err: error }, 'a bug in the move of a volume to another node');
      if (response.headersSent) response.end(jsonFrame(frameTypes.refusal, refusal));
      else response.writeHead(error instanceof NotAdmitted ? 403 : 409).end(JSON.stringify(refusal));
    }
  }
}

class Answering {
  readonly #leavings: Leavings;
  readonly #move: PeerMove;
  readonly #response: ServerResponse;
  readonly #gone: AbortSignal;

  constructor({ leavings }: GivingServerOptions, move: PeerMove, response: ServerResponse, gone: AbortSignal) {
    this.#leavings = leavings;
    this.#move = move;
    this.#response = response;
    this.#gone = gone;
  }

  async run(operation: Operation, body: string): Promise<void> {
    const { id, moveId } = this.#move;
    const source = await this.#leavings.source(this.#move, this.#gone);
    if (operation === 'look') {
      if (source !== undefined) await this.#leavings.looked(this.#move);
      const sight = await source?.look();
      return this.#reply({ sight: sight && sightOut(sight) });
    }
    if (operation === 'describe') {
      const plan = await source?.describe();
      return this.#reply({ plan: plan && planOut(plan) });
    }
    if (source === undefined) throw new NotFound(`volume ${id} is not on this node any more.`);
    switch (operation) {
      case 'has-snapshot':
        return this.#reply({ isThere: await source.hasSnapshot(parsed(asked.snapshot, body).snapshot) });
      case 'take-snapshot':
        await this.#leavings.begin(this.#move);
        await source.takeSnapshot(parsed(asked.snapshot, body).snapshot);
        return this.#reply({});
      case 'remove-snapshot':
        await source.removeSnapshot(parsed(asked.snapshot, body).snapshot);
        return this.#reply({});
      case 'remove-snapshots':
        return this.#removeSnapshots(source);
      case 'close': {
        await this.#leavings.begin(this.#move);
        const closed = await source.close({ moveId, fenceId: parsed(asked.close, body).fenceId });
        return this.#reply({ closed: closed && closedOut(closed) });
      }
      case 'open':
        await source.open();
        return this.#reply({});
      case 'read':
        return this.#read(source, body);
      case 'give':
        return this.#reply(await source.give({ moveId, fenceId: parsed(asked.close, body).fenceId }));
      case 'settle':
        await source.settle({ moveId, generation: parsed(asked.generation, body).generation });
        await source.removeSnapshots();
        await this.#leavings.end(this.#move, 'done');
        switched.publish({ volumeId: id });
        return this.#reply({});
      case 'take-back':
        await source.takeBack(parsed(asked.generation, body).generation);
        return this.#reply({});
    }
  }

  /** The last thing that a target asks for, also when it gives the move up. */
  async #removeSnapshots(source: PoolSource): Promise<void> {
    await source.removeSnapshots();
    const sight = await source.look();
    if (sight !== undefined && sight.state.mark.fence === undefined) await this.#leavings.end(this.#move, 'cancelled');
    this.#reply({});
  }

  async #read(source: PoolSource, body: string): Promise<void> {
    const { base, fromBytes, target } = parsed(asked.read, body);
    const of: ReadRequest['of'] = target === undefined ? undefined : { base, target };
    await using reading = await source.read({ of, fromBytes, signal: this.#gone });
    const { endBytes, pieces, record, totalBytes } = reading;
    const head = { record: serializeRecord(record), endBytes: endBytes.toString(), totalBytes: totalBytes.toString() };
    this.#response.writeHead(200, { 'content-type': 'application/octet-stream' });
    let progressMs = performance.now();
    // A target that takes its time over what it has got is still there.
    const beat = setInterval(() => {
      if (performance.now() - progressMs < slowestMs) this.#leavings.heard(this.#move.id);
    }, beatMs);
    try {
      await this.#write(jsonFrame(frameTypes.head, head));
      for await (const piece of pieces) {
        for (const part of pieceFrame(piece)) {
          await this.#write(part, part === piece.data?.bytes ? piece.data.free : undefined);
        }
        progressMs = performance.now();
        this.#leavings.heard(this.#move.id);
      }
      this.#response.end(frameHead(frameTypes.end, 0n, 0));
    } finally {
      clearInterval(beat);
    }
  }

  /** Waits while the target reads slowly: no more than a few pieces are in memory. */
  async #write(bytes: Buffer, sent?: () => void): Promise<void> {
    this.#gone.throwIfAborted();
    if (!this.#response.write(bytes, (error) => (error ? undefined : sent?.())))
      await once(this.#response, 'drain', { signal: this.#gone });
  }

  #reply(answer: object): void {
    this.#response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  }
}

function secured({ authorities, certificate, key }: NodeIdentity) {
  return { cert: certificate, key, ca: authorities };
}

/** @throws NotAdmitted unless the certificate is that of the node which the controller has admitted */
function requirePeer({ socket }: IncomingMessage, node: string): void {
  const isNode =
    socket instanceof TLSSocket &&
    socket.authorized &&
    socket.getPeerCertificate().subjectaltname === `DNS:${peerName(node)}`;
  if (!isNode) throw new NotAdmitted('another node was admitted to this move.');
}

function targetOf({ method, url = '' }: IncomingMessage): {
  readonly id: PeerMove['id'];
  readonly moveId: string;
  readonly operation: Operation;
} {
  const [, moveId = '', volume = '', last = ''] = /^\/v1\/moves\/([0-9a-f-]{36})\/([^/]+)\/([a-z-]+)$/.exec(url) ?? [];
  const id = parseVolumeId(volume);
  const operation = operations.find((name) => name === last);
  if (method !== 'POST' || id === undefined || operation === undefined) throw new NotFound('There is no such call.');
  return { id, moveId, operation };
}

function parsed<T>(schema: z.ZodType<T>, body: string): T {
  const result = parseJsonInput(schema, body);
  if ('data' in result) return result.data;
  throw new InvalidArgument(`the request cannot be read: ${inOneSentence(result.mistakes)}.`);
}
