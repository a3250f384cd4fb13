import { DataLoss } from '../../volume/errors.ts';
import { pieceBytes } from '../copy.ts';
import { PieceMemory } from '../piece-memory.ts';
import { NotConnected } from '../source.ts';
import { digestBytes, frameHeadBytes, frameTypes, longestBodyBytes } from './wire.ts';

export interface Frame {
  readonly type: number;
  readonly offsetBytes: bigint;
  readonly lengthBytes: number;
  readonly digest: Buffer;
  readonly body: Buffer<ArrayBuffer>;
  /** The body is needed no more (`Slot.free`). */
  free(): void;
}

/** The bytes of a connection. */
export interface ByteSource {
  /** Fills the memory. @throws if the connection ends before */
  read(memory: Buffer): Promise<void>;
}

/** The number of pieces that come while the target writes others. */
const piecesAhead = 8;
/** Frames of zeros take no memory of pieces. */
const maxFrames = 64;
const none = Buffer.alloc(0);
const knownTypes: ReadonlySet<number> = new Set(Object.values(frameTypes));

/**
 * The frames of a connection, which come while others are being written, until memory for pieces is short. Those of unknown
 * types are passed over with their bodies.
 */
export class FramesAhead {
  readonly #source: ByteSource;
  readonly #memory = new PieceMemory(piecesAhead, Number(pieceBytes));
  readonly #frames: Frame[] = [];
  #failed: { readonly error: unknown } | undefined;
  /** Resolves when a frame or the end has come, or one was taken. */
  #changed = Promise.withResolvers<void>();

  constructor(source: ByteSource) {
    this.#source = source;
    void this.#run();
  }

  /** Takes the next one; a failure comes after those that came before it. @throws DataLoss if it is none of ours */
  async next(): Promise<Frame> {
    for (;;) {
      const frame = this.#frames.shift();
      if (frame !== undefined) {
        this.#wake();
        return frame;
      }
      if (this.#failed !== undefined) throw this.#failed.error;
      await this.#changed.promise;
    }
  }

  async #run(): Promise<void> {
    let unknown = 0;
    try {
      for (;;) {
        while (this.#frames.length >= maxFrames) await this.#changed.promise;
        const frame = await this.#read();
        if (!knownTypes.has(frame.type)) {
          // Later versions may add some; a row without an end would be no progress, and no silence either.
          if (++unknown > maxFrames) {
            throw new NotConnected(
              'the other node sends frames of unknown kinds: it has another version of the driver.',
            );
          }
          continue;
        }
        unknown = 0;
        this.#frames.push(frame);
        this.#wake();
        if (frame.type === frameTypes.end || frame.type === frameTypes.refusal) return;
      }
    } catch (error) {
      this.#failed = { error };
      this.#wake();
    }
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  async #read(): Promise<Frame> {
    const head = await this.#bytes(frameHeadBytes);
    const type = head.readUInt8(0);
    const offsetBytes = head.readBigUInt64BE(1);
    const lengthBytes = head.readUInt32BE(9);
    const isData = type === frameTypes.data;
    if (BigInt(lengthBytes) > (isData || type === frameTypes.zeros ? pieceBytes : BigInt(longestBodyBytes))) {
      throw new DataLoss(`the other node has sent a frame of ${lengthBytes} bytes.`);
    }
    const facts = { type, offsetBytes, lengthBytes, free: () => undefined };
    if (isData) {
      const digest = await this.#bytes(digestBytes);
      const { free, memory } = await this.#memory.take();
      const body = memory.subarray(0, lengthBytes);
      await this.#source.read(body);
      return { ...facts, digest, body, free };
    }
    const body = type === frameTypes.zeros ? none : await this.#bytes(lengthBytes);
    return { ...facts, digest: none, body };
  }

  async #bytes(length: number): Promise<Buffer<ArrayBuffer>> {
    const bytes = Buffer.alloc(length);
    await this.#source.read(bytes);
    return bytes;
  }
}
