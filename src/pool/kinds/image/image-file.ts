import { constants } from 'node:fs';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { DataLoss } from '../../../volume/errors.ts';
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

/**
 * Opens an image, to be attached or read. Does not wait for the end of a lease on it.
 * @throws DataLoss if it is missing or cut short: a copy or a device of it would pass for whole
 */
export async function openImage(queue: DiskQueue, image: RecordedImage, access: 'read' | 'write'): Promise<Descriptor> {
  const { O_NONBLOCK, O_RDONLY, O_RDWR } = constants;
  const { id, kind, path, sizeBytes } = image;
  let file: Descriptor;
  try {
    file = await openFile(queue, path, (access === 'read' ? O_RDONLY : O_RDWR) | O_NONBLOCK);
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
    throw new DataLoss(`${kind} ${id}: its image ${path} is missing. Restore the file, or delete the ${kind}.`);
  }
  const { sizeBytes: presentBytes } = await statusOf(queue, file);
  if (presentBytes >= sizeBytes) return file;
  await file[Symbol.asyncDispose]();
  throw new DataLoss(
    `${kind} ${id}: its image ${path} has only ${presentBytes} of ${sizeBytes} bytes: restore it from a backup.`,
  );
}

/** Before anything is made from an image, or it is made larger. @throws DataLoss as `openImage` */
export async function requireWhole(queue: DiskQueue, image: RecordedImage): Promise<void> {
  await using _open = await openImage(queue, image, 'read');
}
