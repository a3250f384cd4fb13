import assert from 'node:assert/strict';
import * as http2 from 'node:http2';
import { connect } from 'node:net';
import { decode, encode, methodsOf } from '../../../../src/csi/contract.ts';
import type {
  BlockMetadata,
  GetMetadataDeltaResponse,
  SnapshotMetadataMethods,
} from '../../../../src/csi/generated/types.ts';
import type { Draft, ServerStream } from '../../../../src/csi/handler.ts';
import { waitFor } from '../waiting.ts';

const [method] = methodsOf('csi.v1.SnapshotMetadata').filter(({ name }) => name === 'GetMetadataDelta');
assert.ok(method);
const { path, requestType, responseType } = method;

type Request = SnapshotMetadataMethods['GetMetadataDelta'] extends ServerStream<infer Q, infer _> ? Q : never;

/** What came of a stream. */
export interface Received {
  readonly ranges: readonly BlockMetadata[];
  /** gRPC's status, by its number; undefined if the connection broke before there was one. */
  readonly status: number | undefined;
  readonly message: string;
}

/**
 * GetMetadataDelta with a range in each message, of which nothing is read before somebody wants it: so it stands in the
 * middle of what there is. No client of gRPC does that, they all read ahead.
 */
export class MetadataStream {
  readonly #session: http2.ClientHttp2Session;
  readonly #stream: http2.ClientHttp2Stream;
  #headers: http2.IncomingHttpHeaders = {};

  private constructor(session: http2.ClientHttp2Session, stream: http2.ClientHttp2Stream) {
    this.#session = session;
    this.#stream = stream;
    stream.on('response', (headers) => this.#note(headers));
    stream.on('trailers', (headers) => this.#note(headers));
    // How it ends is told by what was received.
    session.on('error', () => undefined);
    stream.on('error', () => undefined);
  }

  /** Resolves when the first message is on its way. */
  static async open(socketPath: string, request: Draft<Request>): Promise<MetadataStream> {
    const session = http2.connect('http://localhost', { createConnection: () => connect(socketPath) });
    const headers = {
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      'grpc-timeout': '10M',
    };
    const body = encode(requestType, { ...request, max_results: 1 });
    const head = Buffer.alloc(5);
    head.writeUInt32BE(body.length, 1);
    const stream = session.request(headers);
    const opened = new MetadataStream(session, stream);
    stream.end(Buffer.concat([head, body]));
    await waitFor('the stream to begin', () => assert.ok(stream.readableLength > 0 || stream.destroyed));
    return opened;
  }

  /** Whatever comes until it ends, one way or the other. */
  async rest(): Promise<Received> {
    const chunks: Buffer[] = [];
    this.#stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    if (!this.#stream.closed) await new Promise((resolve) => this.#stream.once('close', resolve));
    this.#session.destroy();
    const { 'grpc-message': message, 'grpc-status': status } = this.#headers;
    return {
      ranges: wholeMessages(Buffer.concat(chunks)).flatMap(({ block_metadata }) => block_metadata),
      status: status === undefined ? undefined : Number(status),
      message: decodeURIComponent(String(message ?? '')),
    };
  }

  #note(headers: http2.IncomingHttpHeaders): void {
    this.#headers = { ...this.#headers, ...headers };
  }
}

/** The last one may have come by half. */
function wholeMessages(bytes: Buffer): GetMetadataDeltaResponse[] {
  const messages: GetMetadataDeltaResponse[] = [];
  for (let at = 0; at + 5 <= bytes.length; ) {
    const endsAt = at + 5 + bytes.readUInt32BE(at + 1);
    if (endsAt > bytes.length) break;
    messages.push(decode(responseType, bytes.subarray(at + 5, endsAt)));
    at = endsAt;
  }
  return messages;
}
