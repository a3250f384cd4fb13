import { chmod } from 'node:fs/promises';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { placeMount } from '../../../kernel/mount/mount.ts';
import { mergeNfsOptions, nfsType, openNfsDirectory } from '../../../kernel/nfs/mount.ts';
import { parseNfsOptions } from '../../../kernel/nfs/options.ts';
import { FailedPrecondition, InvalidArgument } from '../../../volume/errors.ts';
import type { Attached, Attachment } from '../../pool.ts';
import { type NfsContext, sourceOf } from './context.ts';

export type Mountable = Extract<Attached, { kind: 'mountable' }>;

/** A volume as the mount table shows it; `mountAt` of its attachment mounts it. */
export function mountableOf(volume: Pick<NfsContext, 'directory' | 'exported'>): Mountable {
  return { kind: 'mountable', fsType: nfsType, source: sourceOf(volume), options: [] };
}

/** Mounts a volume at a place that the caller chooses. @param subject the volume, for messages */
export function attachNfs(queue: DiskQueue, volume: NfsContext, subject: string): Attachment {
  const { directory, exported, mode } = volume;
  return {
    ...mountableOf(volume),
    async mountAt(target, { attributes, parameters }) {
      const asked = parseNfsOptions(parameters);
      if ('mistake' in asked) {
        throw new InvalidArgument(`${subject}: in mount_flags, ${asked.mistake}: correct mountOptions.`);
      }
      const options = mergeNfsOptions(volume.options, asked);
      await using found = await openNfsDirectory(queue, { exported, directory, options, attributes: {}, subject });
      if (mode !== undefined) {
        await queue
          .run(() => found.during((path) => chmod(path, mode)))
          .catch((error) => {
            if (!isErrno(error, 'EPERM', 'EACCES', 'EROFS')) throw error;
            throw new FailedPrecondition(
              `${subject}: NFS server ${exported.host} does not let this node change the mode of its directory. Leave mountPermissions out, or export it with no_root_squash.`,
            );
          });
      }
      await placeMount(queue, found, { target, attributes });
    },
    release: async () => undefined,
  };
}
