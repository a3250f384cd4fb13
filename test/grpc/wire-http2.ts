import * as http2 from 'node:http2';
import { connect } from 'node:net';

/** What came back for a request that no gRPC client would send. */
export interface RawAnswer {
  /** The number in grpc-status; undefined if there was none. */
  readonly grpcStatus: string | undefined;
  readonly message: string | undefined;
  readonly httpStatus: number | undefined;
  /** The code of RST_STREAM; 0 if the stream ended in order. */
  readonly resetCode: number;
}

export interface RawRequest {
  readonly path: string;
  readonly body: Buffer;
  readonly headers?: http2.OutgoingHttpHeaders;
}

/** A message as gRPC frames it: a flag for compression, the length, the bytes. */
export function framed(bytes: Uint8Array, { compressed = 0, length = bytes.length } = {}): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt8(compressed);
  prefix.writeUInt32BE(length, 1);
  return Buffer.concat([prefix, bytes]);
}

/** Opens a connection of its own for HTTP/2 requests made by hand. */
export function openSession(socketPath: string): http2.ClientHttp2Session {
  const session = http2.connect('http://localhost', { createConnection: () => connect(socketPath) });
  // What the server does to a connection is what the tests are about; each looks at its streams.
  session.on('error', () => undefined);
  return session;
}

export function startRequest(session: http2.ClientHttp2Session, request: RawRequest): http2.ClientHttp2Stream {
  const stream = session.request({
    ':method': 'POST',
    ':path': request.path,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...request.headers,
  });
  stream.on('error', () => undefined);
  return stream;
}

/** Sends one request by hand and waits for whatever comes back. */
export async function rawCall(socketPath: string, request: RawRequest): Promise<RawAnswer> {
  const session = openSession(socketPath);
  try {
    const stream = startRequest(session, request);
    let received: http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader = {};
    stream.on('response', (headers) => {
      received = { ...received, ...headers };
    });
    stream.on('trailers', (headers) => {
      received = { ...received, ...headers };
    });
    const closed = new Promise((resolve) => stream.once('close', resolve));
    stream.resume();
    stream.end(request.body);
    await closed;
    return {
      grpcStatus: text(received['grpc-status']),
      message: text(received['grpc-message']),
      httpStatus: received[':status'],
      resetCode: stream.rstCode ?? 0,
    };
  } finally {
    session.destroy();
  }
}

function text(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(', ') : header;
}
