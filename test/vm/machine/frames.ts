/*
 * What the host and the agent in the virtual machine say to each other over one serial port: many exchanges at a time,
 * each a channel with a number of its own. A frame is its length, its kind, its channel and its bytes.
 */

/** `open` begins an exchange; `input` and `end` go into it; `output`, `error` and at last `done` come out of it. */
export const frameKinds = ['hello', 'open', 'input', 'end', 'output', 'error', 'done'] as const;
export type FrameKind = (typeof frameKinds)[number];

export interface Frame {
  readonly kind: FrameKind;
  readonly channel: number;
  readonly bytes: Buffer;
}

/** What an exchange is to be. */
export type Request =
  /** A shell's command; `done` is an Exit. */
  | { readonly type: 'run'; readonly command: string }
  /** A connection to a unix socket. */
  | { readonly type: 'connect'; readonly path: string }
  /** A function of tasks.ts; `done` is what it returns. */
  | { readonly type: 'task'; readonly name: string; readonly argument: unknown };

/** How a command ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
}

const headBytes = 9;

export function encodeFrame(kind: FrameKind, channel: number, bytes: Uint8Array | string = ''): Buffer {
  const body = typeof bytes === 'string' ? Buffer.from(bytes) : bytes;
  const head = Buffer.alloc(headBytes);
  head.writeUInt32LE(body.length, 0);
  head.writeUInt8(frameKinds.indexOf(kind), 4);
  head.writeUInt32LE(channel, 5);
  return Buffer.concat([head, body]);
}

/** Puts the pieces of a stream together again. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);

  read(chunk: Buffer): Frame[] {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const frames: Frame[] = [];
    while (this.#rest.length >= headBytes) {
      const end = headBytes + this.#rest.readUInt32LE(0);
      if (this.#rest.length < end) break;
      const kind = frameKinds[this.#rest.readUInt8(4)];
      if (kind === undefined) throw new RangeError('not a frame');
      frames.push({ kind, channel: this.#rest.readUInt32LE(5), bytes: this.#rest.subarray(headBytes, end) });
      this.#rest = this.#rest.subarray(end);
    }
    return frames;
  }
}
