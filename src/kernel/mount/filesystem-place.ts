import { join, relative } from 'node:path';
import { Unavailable } from '../../volume/errors.ts';
import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import type { DeviceNumber } from '../device.ts';
import { statusOf } from '../file/path.ts';
import { readMountTable } from './mount-table.ts';

/** A position in a filesystem, the same for every mount of it. */
export interface FilesystemPlace {
  readonly device: DeviceNumber;
  /** The path from the filesystem's own root. */
  readonly root: string;
}

/** The position of an open directory. @param path without symbolic links */
export async function placeOf(queue: DiskQueue, directory: Descriptor, path: string): Promise<FilesystemPlace> {
  const { mountId } = await statusOf(queue, directory);
  const mount = (await readMountTable(queue)).find(({ id }) => id === mountId);
  if (mount === undefined) throw new Unavailable(`${path} was unmounted just now; try again.`);
  return { device: mount.device, root: join(mount.root, relative(mount.target, path)) };
}
