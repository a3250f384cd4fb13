import { isErrno, KernelError } from '../../kernel/call/errno.ts';
import type { MountParameter } from '../../kernel/mount/mount.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { Layout } from '../records/layout.ts';
import { type PoolPlace, readPoolFile } from '../records/pool-file.ts';
import { isMounted, passive, readMounted, throughReadonly } from './unseen-mount.ts';

export interface UnmountedLocation extends Pick<PoolPlace, 'dataDirectory' | 'poolName' | 'queue'> {
  /** The device, or the file that it shows. */
  readonly source: string;
  readonly devicePath: string;
}

/**
 * Checks that the XFS of a location is the pool's, or may become one, before it is mounted for writing: that would write to it,
 * also if it is foreign. It is read through a read-only device. After a power cut its newest changes lie in its
 * log alone, which is not read here; a pool.json that this node remembers never does (`settle` of a location).
 * @throws FailedPrecondition as the driver would, mounted
 */
export async function requireOwnFilesystem(location: UnmountedLocation): Promise<void> {
  const { devicePath, queue, source } = location;
  if (await isMounted(queue, devicePath)) return requireMountedPool(location);
  await throughReadonly(queue, source, async (loop) => {
    const read = (parameters: readonly MountParameter[], work: (root: string) => Promise<void>) =>
      readMounted(queue, loop.devicePath, [...parameters, ['nouuid']], work);
    const look = async (root: string) => void (await readPoolFile(placeAt(location, root)));
    try {
      await read([['ro']], look);
    } catch (error) {
      // Its log is not empty.
      if (!isErrno(error, 'EROFS')) throw error;
      await read(passive, look).catch(passOverDamage);
    }
  });
}

/** Without its log it may not be whole: then the mount tells more. */
function passOverDamage(error: unknown): void {
  if (!(error instanceof KernelError) && !isErrno(error, 'EUCLEAN', 'EBADMSG', 'ENOENT')) throw error;
}

/** A driver in a container may have it. Any other program that has it mounted keeps it. */
async function requireMountedPool(location: UnmountedLocation): Promise<void> {
  const { devicePath, poolName, queue, source } = location;
  await readMounted(queue, devicePath, [], async (root) => {
    if ((await readPoolFile({ ...placeAt(location, root), mayBeNew: true })) !== undefined) return;
    throw new FailedPrecondition(
      `pool ${poolName}: ${source} is in use: it is mounted, and holds no pool (see lsblk). Unmount it, or name another disk.`,
    );
  });
}

function placeAt({ dataDirectory, poolName, queue, source }: UnmountedLocation, root: string): PoolPlace {
  return { dataDirectory, poolName, queue, layout: new Layout(root), called: source };
}
