import { connect, type Socket } from 'node:net';
import { decode, encode, type Method, methodsOf } from '../../src/csi/contract.ts';
import type { ControllerMethods, IdentityMethods, NodeMethods } from '../../src/csi/generated/types.ts';
import { framed } from '../grpc/wire-http2.ts';
import type { ClientOf } from '../support/client.ts';
import { callHeaders, FrameReader, flags, frame, frameTypes, preface, settings } from '../support/http2-frames.ts';

/**
 * A caller that costs little. The driver's callers are Go programs, to which a call is a fraction of what it is to
 * grpc-js's client, or to node:http2; the time of those, in which the driver idles, would be measured as if it were the
 * driver's. This one writes the few frames of HTTP/2 that a call is made of itself.
 */
export interface Caller {
  readonly identity: ClientOf<IdentityMethods>;
  readonly controller: ClientOf<ControllerMethods>;
  readonly node: ClientOf<NodeMethods>;
  [Symbol.dispose](): void;
}

/** gRPC's frame around a message: whether it is compressed, and its length. */
const messageHeaderBytes = 5;

/** Connects to a driver's socket. A call that is answered with an error rejects; what it was, the driver's log tells. */
export function connectCaller(socketPath: string): Caller {
  const session = new Session(connect(socketPath));
  return {
    identity: service<IdentityMethods>(session, 'csi.v1.Identity'),
    controller: service<ControllerMethods>(session, 'csi.v1.Controller'),
    node: service<NodeMethods>(session, 'csi.v1.Node'),
    [Symbol.dispose]: () => session.close(),
  };
}

function service<Methods>(session: Session, name: string): ClientOf<Methods> {
  const calls = methodsOf(name).map((method) => [method.name, caller(session, method)]);
  // The generated types and the descriptor that these functions were made from are of one contract.
  return Object.fromEntries(calls) as ClientOf<Methods>;
}

function caller(session: Session, method: Method): (request: object) => Promise<object> {
  const headers = callHeaders(method.path);
  return async (request) => {
    const answer = await session.call(headers, framed(encode(method.requestType, request)));
    if (answer === undefined) throw new Error(`${method.name} was refused; the driver's log has the reason`);
    return decode<object>(method.responseType, answer.subarray(messageHeaderBytes));
  };
}

/** A window that is never full: all answers of a bench together are smaller. */
const wideWindow = frame({ type: frameTypes.window, stream: 0, payload: Buffer.of(0x7f, 0xff, 0, 0) });

interface Call {
  readonly chunks: Buffer[];
  readonly resolve: (answer: Buffer | undefined) => void;
  readonly reject: (error: Error) => void;
}

class Session {
  readonly #socket: Socket;
  readonly #reader = new FrameReader();
  readonly #calls = new Map<number, Call>();
  #nextStream = 1;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.write(Buffer.concat([preface, settings, wideWindow]));
    socket.on('data', (bytes: Buffer) => this.#read(bytes));
    socket.on('error', (error) => this.#fail(error));
    socket.on('close', () => this.#fail(new Error('the driver closed the connection')));
  }

  /** @returns undefined for an error: gRPC sends no message then */
  call(headers: Buffer, message: Buffer): Promise<Buffer | undefined> {
    const stream = this.#nextStream;
    this.#nextStream += 2;
    return new Promise((resolve, reject) => {
      this.#calls.set(stream, { chunks: [], resolve, reject });
      this.#socket.write(
        Buffer.concat([
          frame({ type: frameTypes.headers, flags: flags.endHeaders, stream, payload: headers }),
          frame({ type: frameTypes.data, flags: flags.endStream, stream, payload: message }),
        ]),
      );
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(bytes: Buffer): void {
    for (const { flags: bits, payload, stream, type } of this.#reader.read(bytes)) {
      const call = this.#calls.get(stream);
      if (type === frameTypes.data) call?.chunks.push(payload);
      const isLast = (type === frameTypes.data || type === frameTypes.headers) && (bits & flags.endStream) !== 0;
      if (isLast || type === frameTypes.reset) this.#calls.delete(stream);
      if (isLast) call?.resolve(call.chunks.length === 0 ? undefined : Buffer.concat(call.chunks));
      if (type === frameTypes.reset) call?.reject(new Error('the driver reset a call'));
      if (type === frameTypes.settings && bits === 0) this.#acknowledge(type);
      if (type === frameTypes.ping && bits === 0) this.#acknowledge(type, payload);
    }
  }

  #acknowledge(type: number, payload: Buffer = Buffer.alloc(0)): void {
    this.#socket.write(frame({ type, flags: flags.acknowledged, stream: 0, payload }));
  }

  #fail(error: Error): void {
    for (const call of this.#calls.values()) call.reject(error);
    this.#calls.clear();
  }
}
