import { constants } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { DataLoss, Unavailable } from '../../../volume/errors.ts';
import type { SnapshotId, VolumeId } from '../../../volume/id.ts';
import type { Recorded } from '../../backend.ts';
import type { Layout } from '../../records/layout.ts';

/** The image of a volume or snapshot, and what its record says of it. */
export interface RecordedImage {
  readonly kind: Recorded['kind'];
  readonly id: VolumeId | SnapshotId;
  readonly path: string;
  readonly sizeBytes: bigint;
}

export function imageOf(layout: Layout, { kind, record: { id, sizeBytes } }: Recorded): RecordedImage {
  return { kind, id, sizeBytes, path: layout.dataOf(id) };
}

/** The tries to open an image, and the pause between two. A look if it is in use takes a lease on it for some microseconds. */
const tries = 20;
const pauseMs = 5;

/**
 * Opens an image, to be attached or read. Does not wait for the lease of another program.
 * @throws DataLoss if it is missing or cut short: a copy or a device of it would pass for whole; Unavailable while there is a lease on it
 */
export async function openImage(queue: DiskQueue, image: RecordedImage, access: 'read' | 'write'): Promise<Descriptor> {
  const { O_NONBLOCK, O_RDONLY, O_RDWR } = constants;
  const { id, kind, path, sizeBytes } = image;
  const file = await openUnleased(queue, path, (access === 'read' ? O_RDONLY : O_RDWR) | O_NONBLOCK).catch((error) => {
    if (isErrno(error, 'EAGAIN'))
      throw new Unavailable(`${kind} ${id}: a program has a lease on its image ${path}; try again.`);
    if (!isErrno(error, 'ENOENT')) throw error;
    throw new DataLoss(`${kind} ${id}: its image ${path} is missing. Restore the file, or delete the ${kind}.`);
  });
  const { sizeBytes: presentBytes } = await statusOf(queue, file);
  if (presentBytes >= sizeBytes) return file;
  await file[Symbol.asyncDispose]();
  throw new DataLoss(
    `${kind} ${id}: its image ${path} has only ${presentBytes} of ${sizeBytes} bytes: restore it from a backup.`,
  );
}

async function openUnleased(queue: DiskQueue, path: string, flags: number): Promise<Descriptor> {
  for (let left = tries - 1; left > 0; left--) {
    try {
      return await openFile(queue, path, flags);
    } catch (error) {
      if (!isErrno(error, 'EAGAIN')) throw error;
    }
    await delay(pauseMs);
  }
  return openFile(queue, path, flags);
}

/** Before anything is made from an image, or it is made larger. @throws DataLoss as `openImage` */
export async function requireWhole(queue: DiskQueue, image: RecordedImage): Promise<void> {
  await using _open = await openImage(queue, image, 'read');
}
