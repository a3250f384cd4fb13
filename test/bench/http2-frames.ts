/** What of HTTP/2 (RFC 9113) and HPACK (RFC 7541) a client of gRPC needs that asks for nothing special. */

export const frameTypes = { DATA: 0, HEADERS: 1, RST_STREAM: 3, SETTINGS: 4, PING: 6, WINDOW_UPDATE: 8 } as const;

const flagBits = { none: 0, 'end of stream': 0x1, acknowledged: 0x1, 'end of headers': 0x4 } as const;
const headerBytes = 9;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

export function frame({
  flags,
  payload,
  stream,
  type,
}: Omit<Frame, 'flags'> & { readonly flags: keyof typeof flagBits }): Buffer {
  const bytes = Buffer.allocUnsafe(headerBytes + payload.length);
  bytes.writeUIntBE(payload.length, 0, 3);
  bytes.writeUInt8(type, 3);
  bytes.writeUInt8(flagBits[flags], 4);
  bytes.writeUInt32BE(stream, 5);
  payload.copy(bytes, headerBytes);
  return bytes;
}

/** An answer's last frame; its headers are not looked at. */
export function isEndOfStream(type: number, flags: number): boolean {
  const { DATA, HEADERS } = frameTypes;
  return (type === DATA || type === HEADERS) && (flags & flagBits['end of stream']) !== 0;
}

const largestWindowBytes = 2 ** 31 - 1;
const initialWindowBytes = 65_535;

/** A client's first words: the preface, settings as they are by default, and a window that is never full. */
export const preface = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  frame({ type: frameTypes.SETTINGS, flags: 'none', stream: 0, payload: Buffer.alloc(0) }),
  frame({
    type: frameTypes.WINDOW_UPDATE,
    flags: 'none',
    stream: 0,
    payload: uint32(largestWindowBytes - initialWindowBytes),
  }),
]);

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** The headers of a gRPC request, for which neither side has to remember anything: no table grows, none is needed. */
export function grpcHeaders(path: string): Buffer {
  return Buffer.concat([
    // From HPACK's static table: `:method: POST` and `:scheme: http`.
    Buffer.of(0x80 | 3, 0x80 | 6),
    // Literals without indexing, their names by number: `:authority`, `:path`, `content-type`.
    Buffer.of(1),
    text('localhost'),
    Buffer.of(4),
    text(path),
    Buffer.of(0x0f, 31 - 0x0f),
    text('application/grpc'),
    // And one with a name.
    Buffer.of(0),
    text('te'),
    text('trailers'),
  ]);
}

/** A string of less than 127 bytes, as it is. */
function text(value: string): Buffer {
  return Buffer.concat([Buffer.of(value.length), Buffer.from(value, 'latin1')]);
}

/** Takes frames out of a stream of bytes. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);

  *read(bytes: Buffer): Generator<Frame, void, void> {
    let rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    while (rest.length >= headerBytes) {
      const length = rest.readUIntBE(0, 3);
      if (rest.length < headerBytes + length) break;
      yield {
        type: rest.readUInt8(3),
        flags: rest.readUInt8(4),
        stream: rest.readUInt32BE(5) & 0x7fffffff,
        payload: rest.subarray(headerBytes, headerBytes + length),
      };
      rest = rest.subarray(headerBytes + length);
    }
    this.#rest = rest;
  }
}
