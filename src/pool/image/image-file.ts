import { constants } from 'node:fs';
import { type Descriptor, openFile } from '../../kernel/descriptor.ts';
import { isErrno } from '../../kernel/errno.ts';
import type { Lane } from '../../kernel/lane.ts';
import { statusOf } from '../../kernel/path.ts';
import { DataLoss } from '../../volume/errors.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { Layout } from './layout.ts';

/** Opens the image of a volume to be attached. Waits for nobody who has a lease on it. @throws DataLoss */
export async function openImage(lane: Lane, layout: Layout, { id, sizeBytes }: VolumeRecord): Promise<Descriptor> {
  const path = layout.data(id);
  let image: Descriptor;
  try {
    image = await openFile(lane, path, constants.O_RDWR | constants.O_NONBLOCK);
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
    throw new DataLoss(`volume ${id}: its image ${path} is missing. Restore the file, or delete the volume.`);
  }
  const { sizeBytes: presentBytes } = await statusOf(lane, image);
  if (presentBytes >= sizeBytes) return image;
  await image[Symbol.asyncDispose]();
  throw new DataLoss(
    `volume ${id}: its image ${path} has only ${presentBytes} of ${sizeBytes} bytes: restore it from a backup.`,
  );
}
