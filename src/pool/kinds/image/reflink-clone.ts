import { constants } from 'node:fs';
import { type Descriptor, openFile, openReadOnly } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { endOfExtents } from '../../../kernel/file/fiemap.ts';
import { createFile, resizeFile } from '../../../kernel/file/file.ts';
import { reflink, reflinkRange, reflinkWhole } from '../../../kernel/file/filesystem.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import type { ByteRange } from '../../../kernel/file/sparse.ts';
import type { Clone, CloneEnd } from '../../backend.ts';

/** The number of extents cloned at a time. On a slow disk that takes 0.1 s, in which the image cannot be written to. */
const extentsPerPiece = 1024;

/**
 * The clone of an image that shares its blocks. To make it takes time for each extent, and the image cannot be written to
 * meanwhile: for minutes, if it lies in a million pieces. So most of an image in use is cloned ahead, a piece at a time.
 * At the end XFS passes over the pieces that are already cloned: a hundred times as quickly.
 */
export class ReflinkClone implements Clone {
  readonly #queue: DiskQueue;
  readonly #fromPath: string;
  readonly #toPath: string;
  /** The pieces at the last run; undefined: nothing was done ahead. */
  #pieces: readonly ByteRange[] | undefined;

  constructor(queue: DiskQueue, fromPath: string, toPath: string) {
    this.#queue = queue;
    this.#fromPath = fromPath;
    this.#toPath = toPath;
  }

  async goAhead(signal?: AbortSignal): Promise<void> {
    const queue = this.#queue;
    await using from = await openReadOnly(queue, this.#fromPath);
    // An image in one piece is cloned in no time.
    if (this.#pieces === undefined && (await endOfExtents(queue, from, 0n, extentsPerPiece)) === undefined) return;
    const { sizeBytes } = await statusOf(queue, from);
    await using to = await this.#open(sizeBytes);
    const pieces: ByteRange[] = [];
    this.#pieces = pieces;
    for (let offsetBytes = 0n; offsetBytes < sizeBytes; ) {
      signal?.throwIfAborted();
      const endBytes = (await endOfExtents(queue, from, offsetBytes, extentsPerPiece)) ?? sizeBytes;
      const piece = { offsetBytes, lengthBytes: endBytes - offsetBytes };
      await reflinkRange(queue, from, to, piece);
      pieces.push(piece);
      offsetBytes = endBytes;
    }
  }

  async complete({ isAtRest, signal }: CloneEnd): Promise<void> {
    const queue = this.#queue;
    if (this.#pieces === undefined) return reflink(queue, this.#fromPath, this.#toPath);
    await using from = await openReadOnly(queue, this.#fromPath);
    await using to = await openFile(queue, this.#toPath, constants.O_WRONLY);
    // An image that may be written to is cloned in one call: the clone must show a single instant.
    if (!isAtRest) return await reflinkWhole(queue, from, to);
    for (const piece of this.#pieces) {
      signal?.throwIfAborted();
      await reflinkRange(queue, from, to, piece);
    }
  }

  async #open(sizeBytes: bigint): Promise<Descriptor> {
    if (this.#pieces !== undefined) return openFile(this.#queue, this.#toPath, constants.O_WRONLY);
    const to = await createFile(this.#queue, this.#toPath);
    try {
      await resizeFile(this.#queue, to, sizeBytes);
      return to;
    } catch (error) {
      await to[Symbol.asyncDispose]();
      throw error;
    }
  }
}
