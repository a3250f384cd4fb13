import { type ClientHttp2Session, connect } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { decode, encode, type Method, methodsOf } from '../../src/csi/contract.ts';
import type { ControllerMethods, NodeMethods } from '../../src/csi/generated/types.ts';
import type { ClientOf } from '../support/client.ts';

/**
 * A caller that costs little. The driver's callers are Go programs, to which a call is a fraction of what it is to
 * grpc-js's client; that one's time, in which the driver idles, would be measured as if it were the driver's.
 */
export interface Caller {
  readonly controller: ClientOf<ControllerMethods>;
  readonly node: ClientOf<NodeMethods>;
  [Symbol.dispose](): void;
}

/** gRPC's frame around a message: whether it is compressed, and its length. */
const frameHeaderBytes = 5;

/** Connects to a driver's socket. A call that is answered with an error rejects with its code and message. */
export function connectCaller(socketPath: string): Caller {
  const session = connect('http://localhost', { createConnection: () => connectSocket(socketPath) });
  return {
    controller: service<ControllerMethods>(session, 'csi.v1.Controller'),
    node: service<NodeMethods>(session, 'csi.v1.Node'),
    [Symbol.dispose]: () => session.close(),
  };
}

function service<Methods>(session: ClientHttp2Session, name: string): ClientOf<Methods> {
  const calls = methodsOf(name).map((method) => [method.name, (request: object) => call(session, method, request)]);
  // The generated types and the descriptor that these functions were made from are of one contract.
  return Object.fromEntries(calls) as ClientOf<Methods>;
}

function call(session: ClientHttp2Session, method: Method, request: object): Promise<object> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': method.path,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    const chunks: Buffer[] = [];
    let failure: string | undefined;
    const readStatus = (headers: Readonly<Record<string, unknown>>) => {
      const { 'grpc-status': status, 'grpc-message': message } = headers;
      if (status !== undefined && status !== '0') failure = `${method.name}: code ${status}: ${message}`;
    };
    // An answer without a message has its status in its first headers.
    stream.on('response', readStatus);
    stream.on('trailers', readStatus);
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('end', () => {
      if (failure !== undefined) reject(new Error(failure));
      else resolve(decode<object>(method.responseType, Buffer.concat(chunks).subarray(frameHeaderBytes)));
    });
    stream.on('error', reject);
    stream.end(frame(encode(method.requestType, request)));
  });
}

function frame(message: Buffer): Buffer {
  const framed = Buffer.allocUnsafe(frameHeaderBytes + message.length);
  framed.writeUInt8(0, 0);
  framed.writeUInt32BE(message.length, 1);
  message.copy(framed, frameHeaderBytes);
  return framed;
}
