import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

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

export const flags = { endStream: 1, endHeaders: 4 } as const;

export interface Frame {
  readonly type: number;
  readonly flags?: number;
  readonly stream: number;
  readonly payload?: Uint8Array;
  /** What the frame says of its length, if it lies. */
  readonly length?: number;
}

export function frame({ flags: bits = 0, payload = Buffer.alloc(0), stream, type, length = payload.length }: Frame) {
  const head = Buffer.alloc(9);
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

/** Connects; what the server does to the connection is no error here. */
export async function open(socketPath: string): Promise<Socket> {
  const socket = connect(socketPath);
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.resume();
  return socket;
}

/** Writes as long as the server reads; how many chunks it took before it closed. */
export async function flood(socketPath: string, chunks: Iterable<Uint8Array>): Promise<number> {
  const socket = await open(socketPath);
  // Not once(): that an error comes first is what happens here.
  const closed = new Promise((resolve) => socket.once('close', resolve));
  let written = 0;
  for (const chunk of chunks) {
    if (!socket.writable) break;
    written++;
    if (!socket.write(chunk)) await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), closed]);
  }
  socket.end();
  await closed;
  return written;
}
