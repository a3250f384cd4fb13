/** HTTP/2 by hand (RFC 9113), with none of its rules enforced. */

export const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');

export const frameTypes = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  push: 5,
  ping: 6,
  goaway: 7,
  window: 8,
  continuation: 9,
} as const;

export const flags = { endStream: 1, acknowledged: 1, endHeaders: 4 } as const;

const headBytes = 9;

export interface Frame {
  readonly type: number;
  readonly flags?: number;
  readonly stream: number;
  readonly payload?: Uint8Array;
  /** What the frame says of its length, if it lies. */
  readonly length?: number;
}

export function frame({ flags: bits = 0, payload = Buffer.alloc(0), stream, type, length = payload.length }: Frame) {
  const head = Buffer.alloc(headBytes);
  head.writeUIntBE(length, 0, 3);
  head.writeUInt8(type & 255, 3);
  head.writeUInt8(bits & 255, 4);
  head.writeUInt32BE(stream >>> 0, 5);
  return Buffer.concat([head, payload]);
}

export const settings = frame({ type: frameTypes.settings, stream: 0 });

/** A header block without compression (RFC 7541, 6.2.2). */
export function headerBlock(headers: Readonly<Record<string, string>>): Buffer {
  const parts = Object.entries(headers).map(([name, value]) =>
    Buffer.concat([Buffer.of(0), hpackString(name), hpackString(value)]),
  );
  return Buffer.concat(parts);
}

function hpackString(text: string): Buffer {
  const bytes = Buffer.from(text);
  const length: number[] = [];
  let rest = bytes.length;
  if (rest < 127) length.push(rest);
  else {
    length.push(127);
    for (rest -= 127; rest >= 128; rest = Math.floor(rest / 128)) length.push((rest % 128) | 128);
    length.push(rest);
  }
  return Buffer.concat([Buffer.from(length), bytes]);
}

/** The headers of a call. */
export function callHeaders(path: string, more: Readonly<Record<string, string>> = {}): Buffer {
  return headerBlock({
    ':method': 'POST',
    ':scheme': 'http',
    ':path': path,
    ':authority': 'localhost',
    'content-type': 'application/grpc',
    te: 'trailers',
    ...more,
  });
}

/** A frame as it is read. */
export interface ReadFrame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** Takes frames out of a stream of bytes. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);

  *read(bytes: Buffer): Generator<ReadFrame, void, void> {
    let rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    while (rest.length >= headBytes) {
      const length = rest.readUIntBE(0, 3);
      if (rest.length < headBytes + length) break;
      yield {
        type: rest.readUInt8(3),
        flags: rest.readUInt8(4),
        stream: rest.readUInt32BE(5) & 0x7fffffff,
        payload: rest.subarray(headBytes, headBytes + length),
      };
      rest = rest.subarray(headBytes + length);
    }
    this.#rest = rest;
  }
}
