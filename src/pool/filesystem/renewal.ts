import { constants } from 'node:fs';
import { type Descriptor, openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { readAt, writeAt } from '../../kernel/file/file.ts';
import { statusOf } from '../../kernel/file/path.ts';

/** Bytes of a filesystem, and where they belong. */
export interface Piece {
  readonly offsetBytes: bigint;
  readonly bytes: Buffer;
}

/** All that has to be written to give a filesystem this UUID. */
export type Renewal = (uuid: Buffer) => readonly Piece[];

/** A filesystem in a file. */
export interface FilesystemImage {
  readonly path: string;
  readonly sizeBytes: bigint;
  read(offsetBytes: bigint, lengthBytes: number): Promise<Buffer>;
}

/** Finds out what has to be written; a word if something else has to be done. */
export type FindRenewal<T extends string> = (image: FilesystemImage) => Promise<Renewal | T>;

/** Looks at the filesystem in an open file. */
export async function inspect<T>(
  queue: DiskQueue,
  file: Descriptor,
  look: (image: FilesystemImage) => Promise<T>,
): Promise<T> {
  const { sizeBytes } = await statusOf(queue, file);
  const read = (offsetBytes: bigint, lengthBytes: number) =>
    readAt(queue, file, { offsetBytes: Number(offsetBytes), lengthBytes });
  return look({ path: file.path, sizeBytes, read });
}

/** Gives the filesystem in a private image another UUID, if writing is all that it takes. */
export async function renew<T extends string>(
  queue: DiskQueue,
  path: string,
  uuid: Buffer,
  find: FindRenewal<T>,
): Promise<T | 'done'> {
  await using file = await openFile(queue, path, constants.O_RDWR);
  const found = await inspect(queue, file, find);
  if (typeof found === 'string') return found;
  await writePieces(queue, file, found(uuid));
  return 'done';
}

export async function writePieces(queue: DiskQueue, file: Descriptor, pieces: readonly Piece[]): Promise<void> {
  await Promise.all(pieces.map(({ bytes, offsetBytes }) => writeAt(queue, file, bytes, offsetBytes)));
}
