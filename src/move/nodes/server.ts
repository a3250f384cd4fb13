import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import type { PoolLog } from '../../pool/log.ts';
import { InvalidArgument, NotFound, Unavailable } from '../../volume/errors.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import { readText } from '../../volume/flow/read-text.ts';
import { parseVolumeId, type VolumeId } from '../../volume/id.ts';
import type { PeerMove } from '../peers.ts';
import { MoveEnded, type ReadRequest } from '../source.ts';
import { switched } from '../switched.ts';
import type { Leavings } from './leavings.ts';
import { type NodeIdentity, peerName } from './names.ts';
import { sendPieces } from './sending.ts';
import { SnapshotAnswers } from './snapshot-answers.ts';
import type { SnapshotLeavings } from './snapshot-leavings.ts';
import { Strangers } from './strangers.ts';
import { Walks } from './walks.ts';
import {
  asked,
  closedOut,
  connectionsEach,
  frameTypes,
  jsonFrame,
  longestBodyBytes,
  NotAdmitted,
  type Operation,
  operations,
  parsed,
  planOut,
  type ReadOperation,
  readingOut,
  readOperations,
  refusalOf,
  type SnapshotOperation,
  sightOut,
  snapshotOperations,
  switchingProtocols,
  upgradeTo,
} from './wire.ts';

export interface GivingServerOptions {
  readonly host: string | undefined;
  readonly port: number;
  readonly identity: NodeIdentity;
  readonly leavings: Leavings;
  readonly snapshotLeavings: SnapshotLeavings;
  readonly objects: ObjectQueue;
  readonly log: PoolLog;
  /** The time for which a target may take none of the bytes that it asked for. */
  readonly slowestMs?: number;
}

/** A connection for each read, and one for the other calls, of a few moves at a time. */
const maxConnections = 512;
/** No node can keep the others away. Connections that have ended may be counted for a while. */
const maxConnectionsOfNode = connectionsEach.reads + connectionsEach.calls + connectionsEach.waits + 16;
/** A node may have all of its connections begin at once. */
const strangerLimits = { all: 160, ofAddress: maxConnectionsOfNode } as const;
const requestMs = 10_000;
/** A target that takes nothing for longer is not there any more. */
const defaultSlowestMs = 5 * 60_000;
const beatMs = 5_000;

/**
 * The port where other nodes fetch volumes. No connection is accepted without a certificate of the controller's authority, and each
 * request is compared with the admission of the controller: this volume, this move, this node.
 */
export class GivingServer {
  readonly #options: GivingServerOptions;
  readonly #server: Server;
  /** All connections. The server itself knows neither those that have shown no certificate yet nor those that carry frames. */
  readonly #connections = new Set<Socket>();
  #isClosing = false;
  readonly #walks = new Walks();
  /** The number of connections, by the name in their certificate. */
  readonly #counts = new Map<string, number>();
  readonly #strangers = new Strangers(strangerLimits);

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
    this.#server.maxConnections = maxConnections + strangerLimits.all;
    this.#server.on('request', (request, response) => void this.#answer(request, response));
    this.#server.on('upgrade', (request, socket) => void this.#read(request, socket));
    this.#server.on('secureConnection', (socket) => {
      this.#strangers.showedCertificate(socket);
      this.#count(socket);
    });
    this.#server.on('connection', (socket) => {
      // It was accepted in the moment in which the server was closed.
      if (this.#isClosing) return void socket.destroy();
      this.#connections.add(socket);
      socket.once('close', () => this.#connections.delete(socket));
      socket.setKeepAlive(true, 10_000);
      this.#strangers.come(socket);
    });
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
    this.#isClosing = true;
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#connections) socket.destroy();
    await this.#walks.close();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { leavings, log, objects, snapshotLeavings } = this.#options;
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    response.on('error', () => gone.abort());
    try {
      const { ended, move, operation } = this.#admit(request);
      if (ended !== undefined) throw isOfSnapshots(operation) ? ended : await leavings.withLeft(move, ended);
      if (isRead(operation)) throw otherVersion(move);
      const body = await readText(request, longestBodyBytes, () => new InvalidArgument('the request is too long.'));
      if (isOfSnapshots(operation)) {
        const answers = new SnapshotAnswers({ leavings: snapshotLeavings, objects, move, gone: gone.signal });
        return reply(response, await answers.answer(operation, body));
      }
      await new Answering(leavings, move, response, gone.signal).run(operation, body);
    } catch (error) {
      if (gone.signal.aborted) return;
      const refusal = refusalFor(log, error);
      response.writeHead(statusOf(error)).end(JSON.stringify(refusal));
    }
  }

  #count(socket: TLSSocket): void {
    const name = nameOf(socket) ?? '';
    const count = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, count);
    socket.once('close', () => {
      const left = (this.#counts.get(name) ?? 0) - 1;
      if (left > 0) this.#counts.set(name, left);
      else this.#counts.delete(name);
    });
    if (count > maxConnectionsOfNode) socket.destroy();
  }

  async #read(request: IncomingMessage, socket: Duplex): Promise<void> {
    const { leavings, log, slowestMs = defaultSlowestMs } = this.#options;
    const gone = new AbortController();
    socket.once('close', () => gone.abort());
    socket.on('error', () => socket.destroy());
    // The target says nothing more: it only ends the connection.
    socket.once('end', () => socket.destroy());
    socket.resume();
    try {
      const { ended, move, operation } = this.#admit(request);
      if (ended !== undefined) throw ended;
      if (!isRead(operation) || request.headers.upgrade !== upgradeTo) throw otherVersion(move);
      const read = operation === 'read' ? readIn(request) : undefined;
      socket.write(switchingProtocols);
      const sent =
        read === undefined
          ? this.#sendSnapshot(move, request, { socket, gone: gone.signal, slowestMs })
          : leavings.reading(move, read.of === undefined, (ended) =>
              sendVolume(leavings, move, { ...read, walks: this.#walks, socket, ended, gone: gone.signal, slowestMs }),
            );
      await sent.catch((error: unknown) => {
        if (!socket.destroyed) socket.end(jsonFrame(frameTypes.refusal, refusalFor(log, error)));
      });
      // A target that is slow has not all of it yet; one that never ends is not waited for.
      destroyIn(slowestMs, socket);
    } catch (error) {
      destroyIn(requestMs, socket);
      socket.end(refusalAnswer(error, refusalFor(log, error)), () => socket.destroy());
    }
  }

  async #sendSnapshot(
    move: PeerMove,
    request: IncomingMessage,
    { gone, slowestMs, socket }: Pick<Read, 'gone' | 'slowestMs' | 'socket'>,
  ): Promise<void> {
    const { objects, snapshotLeavings: leavings } = this.#options;
    using slowness = endIfSlow(socket, slowestMs, () => leavings.heard(move));
    const answers = new SnapshotAnswers({ leavings, objects, move, gone });
    await answers.read(socket, askIn(request), () => slowness.went());
  }

  /** @returns also why the move has ended, if it has @throws NotAdmitted, NotFound */
  #admit(request: IncomingMessage): Admitted {
    const { leavings, snapshotLeavings } = this.#options;
    const { id, moveId, operation } = targetOf(request);
    // Without an admission nothing is said, not even whether the volume is here.
    const { ended, node } = isOfSnapshots(operation)
      ? snapshotLeavings.admitted(id, moveId, operation)
      : leavings.admitted(id, moveId, operation);
    requirePeer(request, node);
    const move = { id, moveId, node };
    if (ended !== undefined) return { ended, move, operation };
    if (isOfSnapshots(operation)) snapshotLeavings.heard(move);
    else if (operation !== 'describe') leavings.heard(move);
    return { ended, move, operation };
  }
}

interface Admitted {
  readonly ended: MoveEnded | undefined;
  readonly move: PeerMove;
  readonly operation: Operation;
}

class Answering {
  readonly #leavings: Leavings;
  readonly #move: PeerMove;
  readonly #response: ServerResponse;
  readonly #gone: AbortSignal;

  constructor(leavings: Leavings, move: PeerMove, response: ServerResponse, gone: AbortSignal) {
    this.#leavings = leavings;
    this.#move = move;
    this.#response = response;
    this.#gone = gone;
  }

  async run(operation: Exclude<Operation, 'read' | SnapshotOperation>, body: string): Promise<void> {
    const { id, moveId } = this.#move;
    const source = await this.#leavings.source(this.#move, this.#gone);
    if (operation === 'look') {
      const { idleWithinMs, isVerified } = parsed(asked.look, body);
      if (source !== undefined) await this.#leavings.looked(this.#move);
      if (isVerified === true) await source?.verified();
      const sight = await source?.look(idleWithinMs);
      return this.#reply({ sight: sight && sightOut(sight) });
    }
    if (operation === 'describe') {
      const plan = await source?.describe();
      return this.#reply({ plan: plan && planOut(plan) });
    }
    if (source === undefined) throw notHere(id);
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
        await this.#leavings.unfence(id, () => source.removeLast(() => this.#leavings.end(this.#move, 'cancelled')));
        return this.#reply({});
      case 'close': {
        await this.#leavings.begin(this.#move);
        const closed = await source.close({ moveId, fenceId: parsed(asked.close, body).fenceId });
        return this.#reply({ closed: closed && closedOut(closed) });
      }
      case 'open':
        await this.#leavings.unfence(id, () => source.open());
        return this.#reply({});
      case 'give':
        return this.#reply(await source.give({ moveId, fenceId: parsed(asked.close, body).fenceId }));
      case 'settle':
        await source.settle({ moveId, generation: parsed(asked.generation, body).generation });
        await source.removeSnapshots();
        await this.#leavings.end(this.#move, 'done');
        switched.publish({ volumeId: id });
        return this.#reply({});
      case 'take-back': {
        const { generation } = parsed(asked.generation, body);
        await this.#leavings.unfence(id, () => source.takeBack(generation));
        return this.#reply({});
      }
    }
  }

  #reply(answer: object): void {
    reply(this.#response, answer);
  }
}

function reply(response: ServerResponse, answer: object): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
}

function isRead(operation: Operation): operation is ReadOperation {
  return readOperations.some((read) => read === operation);
}

function isOfSnapshots(operation: Operation): operation is SnapshotOperation {
  return snapshotOperations.some((each) => each === operation);
}

function notHere(id: VolumeId): NotFound {
  return new NotFound(`volume ${id} is not on this node any more.`);
}

interface Read extends Pick<ReadRequest, 'fromBytes' | 'of' | 'place'> {
  readonly socket: Duplex;
  /** The connection was lost. */
  readonly gone: AbortSignal;
  /** The move, or the fence that is read under, goes on no more. */
  readonly ended: AbortSignal;
  readonly slowestMs: number;
  readonly walks: Walks;
}

async function sendVolume(
  leavings: Leavings,
  move: PeerMove,
  { ended, fromBytes, gone, of, place, slowestMs, socket, walks }: Read,
): Promise<void> {
  const end = () => socket.destroy();
  ended.addEventListener('abort', end, { once: true });
  const signal = AbortSignal.any([gone, ended]);
  const read = async (until: AbortSignal) => {
    const source = await leavings.source(move, until);
    if (source === undefined) throw notHere(move.id);
    return source.read({ of, fromBytes, place, signal: until });
  };
  const during = (walk: (ended: AbortSignal) => Promise<void>) => leavings.reading(move, true, walk);
  const key = `${move.moveId} ${place?.digest.toString('hex')} ${place?.atBytes} ${place?.fileBytes}`;
  await using reading =
    place === undefined ? await read(signal) : await walks.take({ id: move.id, key, signal, read, during });
  using slowness = endIfSlow(socket, slowestMs, () => leavings.heard(move));
  try {
    await sendPieces(socket, { head: readingOut(reading), pieces: reading.pieces }, () => slowness.went());
  } finally {
    ended.removeEventListener('abort', end);
  }
}

interface Slowness extends Disposable {
  /** The target has taken something. */
  went(): void;
}

/** A target that takes its time over what it has got is still there, for a while. */
function endIfSlow(socket: Duplex, slowestMs: number, heard: () => void): Slowness {
  let progressMs = performance.now();
  const beat = setInterval(
    () => {
      if (performance.now() - progressMs < slowestMs) heard();
      else socket.destroy();
    },
    Math.min(beatMs, slowestMs),
  );
  return {
    went() {
      progressMs = performance.now();
      heard();
    },
    [Symbol.dispose]: () => clearInterval(beat),
  };
}

/** The move waits until both nodes have the same version. */
function otherVersion({ id }: PeerMove): Unavailable {
  return new Unavailable(`the node of volume ${id} sends it in another way: it has another version of the driver.`);
}

/** A target of another version believes no refusal but one of an admission. */
function statusOf(error: unknown): 403 | 409 {
  return error instanceof NotAdmitted || error instanceof MoveEnded ? 403 : 409;
}

function refusalAnswer(error: unknown, refusal: ReturnType<typeof refusalOf>): string {
  const status = statusOf(error);
  const body = JSON.stringify(refusal);
  const headers = `Connection: close\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}`;
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${headers}\r\n\r\n${body}`;
}

function destroyIn(ms: number, socket: Duplex): void {
  const timer = setTimeout(() => socket.destroy(), ms);
  socket.once('close', () => clearTimeout(timer));
  if (socket.destroyed) clearTimeout(timer);
}

function refusalFor(log: PoolLog, error: unknown): ReturnType<typeof refusalOf> {
  const refusal = refusalOf(error);
  if (refusal.code === 'INTERNAL') log.error({ err: error }, 'a bug in the move of a volume to another node');
  return refusal;
}

function secured({ authorities, certificate, key }: NodeIdentity) {
  return { cert: certificate, key, ca: authorities };
}

/** @throws NotAdmitted unless the certificate is that of the node which the controller has admitted */
function requirePeer({ socket }: IncomingMessage, node: string): void {
  if (!(socket instanceof TLSSocket && socket.authorized && nameOf(socket) === `DNS:${peerName(node)}`))
    throw new NotAdmitted('another node was admitted to this move.');
}

function nameOf(socket: TLSSocket): string | undefined {
  return socket.getPeerCertificate().subjectaltname;
}

function targetOf({ method, url = '' }: IncomingMessage): {
  readonly id: PeerMove['id'];
  readonly moveId: string;
  readonly operation: Operation;
} {
  const [, moveId = '', volume = '', last = ''] =
    /^\/v1\/moves\/([0-9a-f-]{36})\/([^/]+)\/([a-z-]+)$/.exec(pathOf(url)) ?? [];
  const id = parseVolumeId(volume);
  const operation = operations.find((name) => name === last);
  // Earlier versions ask for the bytes by a POST.
  const isKnown = method === 'POST' || (operation !== undefined && isRead(operation) && method === 'GET');
  if (!isKnown || id === undefined || operation === undefined) throw new NotFound('There is no such call.');
  return { id, moveId, operation };
}

function pathOf(url: string): string {
  return url.split('?', 1)[0] ?? '';
}

function askIn({ url = '' }: IncomingMessage): string {
  return new URLSearchParams(url.slice(pathOf(url).length)).get('ask') ?? '';
}

function readIn(request: IncomingMessage): Pick<ReadRequest, 'fromBytes' | 'of' | 'place'> {
  const {
    base,
    fromBytes,
    placeDigest: digest,
    placeFileBytes: fileBytes,
    target,
  } = parsed(asked.read, askIn(request));
  const place = digest && { atBytes: fromBytes, digest, fileBytes };
  return { fromBytes, place, of: target === undefined ? undefined : { base, target } };
}
