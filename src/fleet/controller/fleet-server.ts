import { randomBytes } from 'node:crypto';
import * as grpc from '@grpc/grpc-js';
import type { Logger } from 'pino';
import { HoldfastError, Unavailable } from '../../volume/errors.ts';
import { BadToken, type Comer } from '../kubernetes/token-review.ts';
import type { Bearer } from '../kubernetes/tokens.ts';
import { type ControllerStream, controllerPipe, linkMethod, longestMessageBytes } from '../link/grpc-pipe.ts';
import type { Material } from '../tls/material.ts';
import { Door } from './door.ts';
import { linkRefused, type Refusal } from './events.ts';
import type { FleetMoves } from './fleet-moves.ts';
import type { FleetState } from './fleet-state.ts';
import { NodeSession } from './node-session.ts';
import type { Sessions } from './sessions.ts';

/** Time for which a link may outlive its token: the kubelet may be late with the new one. */
const expiryGraceMs = 5 * 60_000;

export interface FleetServerOptions {
  readonly host: string | undefined;
  readonly port: number;
  readonly material: Material;
  readonly driverName: string;
  readonly controller: string;
  readonly state: FleetState;
  readonly sessions: Sessions;
  readonly log: Logger;
  readonly review: (token: string, comer: Comer) => Promise<Bearer>;
  readonly beatMs?: number;
  readonly moves?: FleetMoves | undefined;
}

/** The controller's port, where nodes link. */
export class FleetServer {
  readonly #server: grpc.Server;
  readonly #options: FleetServerOptions;
  readonly #instance = randomBytes(8).toString('hex');
  #injector: grpc.ConnectionInjector;
  #door: Door | undefined;
  /** The last review for each address with one in progress. */
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(options: FleetServerOptions) {
    this.#options = options;
    this.#server = new grpc.Server({
      'grpc.enable_channelz': 0,
      // One link, and one that replaces it.
      'grpc.max_concurrent_streams': 4,
      'grpc.max_receive_message_length': longestMessageBytes,
      'grpc.max_send_message_length': longestMessageBytes,
    });
    this.#server.addService({ Link: linkDefinition }, { Link: (stream: ControllerStream) => this.#link(stream) });
    this.#injector = this.#server.createConnectionInjector(credentialsOf(options.material));
  }

  get port(): number {
    return this.#door?.port ?? 0;
  }

  async listen(): Promise<void> {
    const { host, port } = this.#options;
    this.#door = await Door.open({ host, port, admit: (socket) => this.#injector.injectConnection(socket) });
  }

  /** Uses the certificate for new connections; existing ones stay. */
  renew(material: Material): void {
    this.#injector = this.#server.createConnectionInjector(credentialsOf(material));
  }

  async close(): Promise<void> {
    for (const session of this.#options.sessions.all()) session.end('the controller is stopping');
    await this.#door?.close();
    this.#server.forceShutdown();
  }

  #link(stream: ControllerStream): void {
    this.#admit(stream).catch((error: unknown) => {
      linkRefused.publish({ reason: refusalOf(error) });
      const refusal = error instanceof HoldfastError ? error.message : 'the controller could not review the token';
      this.#options.log.warn({ peer: stream.getPeer(), reason: refusal }, 'a link was refused');
      stream.emit('error', { code: grpc.status.UNAUTHENTICATED, details: refusal });
      // Allows one guess for each connection.
      if (error instanceof BadToken) this.#door?.sendAway(stream.getPeer());
    });
  }

  async #admit(stream: ControllerStream): Promise<void> {
    const { beatMs, controller, driverName, log, moves, review, sessions, state } = this.#options;
    const pipe = controllerPipe(stream);
    const [authorization = ''] = stream.metadata.get('authorization');
    const token = /^Bearer (\S+)$/.exec(String(authorization))?.[1] ?? '';
    const peer = stream.getPeer();
    const bearer = await this.#reviewInTurn(peer, token);
    if (state.isKeptOut(bearer.node)) throw new ForgottenNode(bearer.node);
    this.#door?.known(peer);
    let expiry: NodeJS.Timeout | undefined;
    const session = new NodeSession(pipe, {
      node: bearer.node,
      driverName,
      controller,
      instance: this.#instance,
      state,
      log,
      moves,
      host: peer.slice(0, peer.lastIndexOf(':')).replace(/^\[|\]$|^::ffff:/g, ''),
      hasOther: () => sessions.find(bearer.node) !== undefined,
      ...(beatMs === undefined ? {} : { beatMs }),
      async renew(next) {
        const renewed = await review(next, 'known');
        if (renewed.node !== bearer.node) throw new BadToken(`it is one of node ${renewed.node}`);
        expiry = endAt(renewed);
      },
      onReady: (ready) => sessions.ready(ready),
      onEnd: (ended) => {
        clearTimeout(expiry);
        sessions.ended(ended);
        this.#door?.left(peer);
      },
    });
    expiry = endAt(bearer);

    function endAt({ expiresAtMs }: Bearer): NodeJS.Timeout {
      clearTimeout(expiry);
      // A timer takes no more than 24 days.
      const leftMs = Math.min(expiresAtMs + expiryGraceMs - Date.now(), 2 ** 31 - 1);
      return setTimeout(() => session.end('its token has expired'), leftMs).unref();
    }
  }

  /** Reviews one token at a time for each address, so that no stranger takes the places of others. */
  #reviewInTurn(peer: string, token: string): Promise<Bearer> {
    const { review } = this.#options;
    const address = peer.slice(0, peer.lastIndexOf(':'));
    const turn = (this.#turns.get(address) ?? Promise.resolve()).then(() => {
      if (this.#door?.has(peer) === false) throw new Unavailable('The connection is gone.');
      return review(token, 'stranger');
    });
    const settled = turn
      .catch(() => undefined)
      .then(() => {
        if (this.#turns.get(address) === settled) this.#turns.delete(address);
      });
    this.#turns.set(address, settled);
    return turn;
  }
}

/** An operator has declared the node gone. Its data stays there. */
class ForgottenNode extends HoldfastError {
  override readonly code = 'FAILED_PRECONDITION';

  constructor(node: string) {
    super(`Node ${node} was forgotten. To accept it again with its volumes: holdfast forget-node --undo ${node}.`);
  }
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof ForgottenNode) return 'forgotten';
  return error instanceof BadToken ? 'token' : 'review';
}

const linkDefinition: grpc.MethodDefinition<Buffer, Buffer> = {
  path: linkMethod,
  requestStream: true,
  responseStream: true,
  requestSerialize: (bytes) => bytes,
  requestDeserialize: (bytes) => bytes,
  responseSerialize: (bytes) => bytes,
  responseDeserialize: (bytes) => bytes,
};

function credentialsOf({ 'tls.crt': certificate, 'tls.key': key }: Material): grpc.ServerCredentials {
  return grpc.ServerCredentials.createSsl(null, [
    { private_key: Buffer.from(key), cert_chain: Buffer.from(certificate) },
  ]);
}
