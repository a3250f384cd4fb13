import { constants } from 'node:fs';
import { sizeOfDevice } from '../kernel/block/block.ts';
import { type Descriptor, openFile } from '../kernel/call/descriptor.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { readAtMost, writeAt } from '../kernel/file/file.ts';
import { statusOf } from '../kernel/file/path.ts';

/** Bytes of a filesystem, and where they belong. */
export interface Piece {
  readonly offsetBytes: bigint;
  readonly bytes: Buffer;
}

/** All that has to be written to give a filesystem this UUID. */
export type Renewal = (uuid: Buffer) => readonly Piece[];

/** A filesystem in a file, or on a device. */
export interface FilesystemImage {
  readonly path: string;
  readonly sizeBytes: bigint;
  read(offsetBytes: bigint, lengthBytes: number): Promise<Buffer>;
}

/** Finds the bytes that have to be written; a word if something else has to be done. */
export type FindRenewal<T extends string> = (image: FilesystemImage) => Promise<Renewal | T>;

/** Looks at the filesystem in an open file or device. */
export async function inspect<T>(
  queue: DiskQueue,
  file: Descriptor,
  look: (image: FilesystemImage) => Promise<T>,
): Promise<T> {
  const status = await statusOf(queue, file);
  // The node of a device has no size (stat(2)).
  const sizeBytes = status.kind === 'block' ? sizeOfDevice(file) : status.sizeBytes;
  const read = (offsetBytes: bigint, lengthBytes: number) =>
    readAtMost(queue, file, { offsetBytes: Number(offsetBytes), lengthBytes });
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

const pageBytes = 4096n;

/**
 * The same in whole pages: where nothing is cached, the kernel has to read the rest of a page before a part of it can be
 * written. For clones of a filesystem that does not change.
 */
export async function inWholePages({ read }: FilesystemImage, renewal: Renewal): Promise<Renewal> {
  const places = renewal(Buffer.alloc(16));
  const pages = await Promise.all(
    places.map(async ({ bytes, offsetBytes }) => {
      const start = offsetBytes - (offsetBytes % pageBytes);
      const end = offsetBytes + BigInt(bytes.length) + pageBytes - 1n;
      return { offsetBytes: start, bytes: await read(start, Number(end - (end % pageBytes) - start)) };
    }),
  );
  return (uuid) =>
    renewal(uuid).map(({ bytes, offsetBytes }, index) => {
      const page = pages[index] ?? { bytes, offsetBytes };
      const whole = Buffer.from(page.bytes);
      bytes.copy(whole, Number(offsetBytes - page.offsetBytes));
      return { offsetBytes: page.offsetBytes, bytes: whole };
    });
}

export async function writePieces(queue: DiskQueue, file: Descriptor, pieces: readonly Piece[]): Promise<void> {
  await Promise.all(pieces.map(({ bytes, offsetBytes }) => writeAt(queue, file, bytes, offsetBytes)));
}
