import type { Descriptor } from '../kernel/call/descriptor.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { readExactly, writeAt } from '../kernel/file/file.ts';
import type { ByteRange } from '../kernel/file/sparse.ts';
import type { IncomingBytes } from '../pool/moves.ts';
import type { PieceMemory } from './piece-memory.ts';

/** Blocks that share their place with another file are written only if they differ: that takes space for them. */
const blockBytes = 4096;
const zeros = Buffer.alloc(blockBytes);

export interface AlikeParts {
  readonly queue: DiskQueue;
  readonly to: Pick<IncomingBytes, 'data' | 'zero'>;
  /** The same, past the page cache if that can be. */
  readonly file: Descriptor;
  readonly memory: PieceMemory;
  /** The pieces of the target that hold data. */
  data(fromBytes: bigint, untilBytes: bigint): AsyncIterable<ByteRange>;
  /** A part of the target was written. */
  wrote(range: ByteRange): void;
}

/** A target that began as a clone of something that is nearly the same. */
export class Alike {
  readonly #parts: AlikeParts;

  constructor(parts: AlikeParts) {
    this.#parts = parts;
  }

  /** @param bytes in aligned memory, at most a piece */
  async write(bytes: Buffer<ArrayBuffer>, offsetBytes: bigint): Promise<void> {
    const { file, queue, wrote } = this.#parts;
    const isOther = (found: Buffer, at: number) => !found.equals(bytes.subarray(at, at + found.length));
    for (const [from, until] of await this.#differences({ offsetBytes, lengthBytes: BigInt(bytes.length) }, isOther)) {
      await writeAt(queue, file, bytes.subarray(from, until), offsetBytes + BigInt(from));
      wrote({ offsetBytes: offsetBytes + BigInt(from), lengthBytes: BigInt(until - from) });
    }
  }

  /** Makes a range read as zeros. */
  async zero(fromBytes: bigint, untilBytes: bigint, signal: AbortSignal): Promise<void> {
    for await (const piece of this.#parts.data(fromBytes, untilBytes)) {
      signal.throwIfAborted();
      await this.#zeroPiece(piece);
    }
  }

  async #zeroPiece(range: ByteRange): Promise<void> {
    const isOther = (found: Buffer) => !found.equals(zeros.subarray(0, found.length));
    for (const [from, until] of await this.#differences(range, isOther)) {
      await this.#parts.to.zero({
        offsetBytes: range.offsetBytes + BigInt(from),
        lengthBytes: BigInt(until - from),
      });
    }
  }

  /** The parts of the range, in whole blocks, that are other than they shall be. */
  async #differences(
    { lengthBytes, offsetBytes }: ByteRange,
    isOther: (found: Buffer, at: number) => boolean,
  ): Promise<(readonly [from: number, until: number])[]> {
    const { file, memory, queue } = this.#parts;
    const slot = await memory.take();
    const found = slot.memory.subarray(0, Number(lengthBytes));
    await readExactly(queue, file, found, offsetBytes);
    const parts: [number, number][] = [];
    for (let at = 0; at < found.length; at += blockBytes) {
      const until = Math.min(at + blockBytes, found.length);
      if (!isOther(found.subarray(at, until), at)) continue;
      const last = parts.at(-1);
      if (last?.[1] === at) last[1] = until;
      else parts.push([at, until]);
    }
    slot.free();
    return parts;
  }
}
