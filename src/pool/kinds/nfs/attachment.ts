import { randomUUID } from 'node:crypto';
import { chmod, mkdir, readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../../kernel/call/errno.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { placeMount } from '../../../kernel/mount/mount.ts';
import { mergeNfsOptions, mountExport, nfsType, openNfsDirectory } from '../../../kernel/nfs/mount.ts';
import { parseNfsOptions } from '../../../kernel/nfs/options.ts';
import { forceUnmountNfs } from '../../../kernel/nfs/unmount.ts';
import { FailedPrecondition, InvalidArgument } from '../../../volume/errors.ts';
import type { Attached, Attachment } from '../../pool.ts';
import { isOwn, type NfsContext, pathIn, sourceOf } from './context.ts';

export type Mountable = Extract<Attached, { kind: 'mountable' }>;

/** A volume as the mount table shows it; `mountAt` of its attachment mounts it. */
export function mountableOf(volume: Pick<NfsContext, 'directory' | 'exported'>): Mountable {
  return { kind: 'mountable', fsType: nfsType, source: sourceOf(volume), options: [] };
}

/** The process that mounts volumes. */
export interface Mounter {
  readonly queue: DiskQueue;
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
}

/** Mounts a volume at a place that the caller chooses. @param subject the volume, for messages */
export function attachNfs(mounter: Mounter, volume: NfsContext, subject: string): Attachment {
  return {
    ...mountableOf(volume),
    async mountAt(target, { attributes, parameters }) {
      const asked = parseNfsOptions(parameters);
      if ('mistake' in asked) {
        throw new InvalidArgument(`${subject}: in mount_flags, ${asked.mistake}: correct mountOptions.`);
      }
      const options = mergeNfsOptions(volume.options, asked);
      await using found = await openVolume(mounter, { ...volume, options }, subject);
      if (volume.mode !== undefined) await changeMode(mounter.queue, found, volume.mode, subject);
      await placeMount(mounter.queue, found, { target, attributes });
    },
    release: async () => undefined,
  };
}

async function openVolume(
  { dataDirectory, queue }: Mounter,
  { directory, exported, options }: NfsContext,
  subject: string,
): Promise<Descriptor> {
  const mount = { exported, options, attributes: {}, subject };
  if (directory === '') return await mountExport(queue, mount);
  // Only root can make links on the way to it: the directories of a pool are root's.
  if (isOwn(directory)) {
    return await mountExport(queue, { ...mount, exported: { ...exported, share: pathIn(exported.share, directory) } });
  }
  const mountPoint = join(dataDirectory, exportsName, exported.host, randomUUID());
  await queue.run(() => mkdir(mountPoint, { recursive: true, mode: 0o700 }));
  try {
    return await openNfsDirectory(queue, { ...mount, directory, mountPoint });
  } finally {
    await queue.run(() => rmdir(mountPoint)).catch(() => undefined);
  }
}

/** Directory in HOLDFAST_DATA, with one for each server: exports are mounted there for a moment. */
const exportsName = 'exports';

/** Removes the places that a killed driver has left of a server. */
export async function removeLeftExports({ dataDirectory, queue }: Mounter, host: string): Promise<void> {
  const directory = join(dataDirectory, exportsName, host);
  const names = await queue.run(() => readdir(directory)).catch(ignoreMissing);
  for (const name of names ?? []) {
    const path = join(directory, name);
    if ((await statusOf(queue, path)).isMountRoot) await forceUnmountNfs(path);
    await queue.run(() => rmdir(path));
  }
}

async function changeMode(queue: DiskQueue, directory: Descriptor, mode: number, subject: string): Promise<void> {
  try {
    await queue.run(() => directory.during((path) => chmod(path, mode)));
  } catch (error) {
    if (!isErrno(error, 'EPERM', 'EACCES', 'EROFS')) throw error;
    throw new FailedPrecondition(
      `${subject}: its NFS server does not let this node change the mode of its directory. Leave mountPermissions out, or export it with no_root_squash.`,
    );
  }
}
