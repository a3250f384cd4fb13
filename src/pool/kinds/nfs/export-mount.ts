import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { openReadOnly } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { makeDirectoryAt, openBeneath, openDirectory, statusOf } from '../../../kernel/file/path.ts';
import { placeMount } from '../../../kernel/mount/mount.ts';
import { mountExport } from '../../../kernel/nfs/mount.ts';
import { type NfsOptions, softly } from '../../../kernel/nfs/options.ts';
import { forceUnmountNfs } from '../../../kernel/nfs/unmount.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { step } from '../../../volume/step.ts';
import { poolRoot } from '../../location/place.ts';
import type { NfsPoolOptions } from './config.ts';

/** No file of a volume is run, or is a device, for the driver. */
const attributes = { nosuid: true, nodev: true, noexec: true, atime: 'noatime' } as const;

/** A call that fails is repeated, as after a crash. Locks are the server's, whatever options volumes have. */
function ownOptions({ parameters, ...options }: NfsOptions): NfsOptions {
  const kept = ['sec', 'proto', 'rsize', 'wsize', 'nconnect', 'resvport', 'noresvport'];
  return softly({ ...options, parameters: parameters.filter(([key]) => kept.includes(key)) });
}

export interface ExportMountOptions extends Pick<NfsPoolOptions, 'exported' | 'path' | 'options'> {
  readonly name: string;
  readonly dataDirectory: string;
  readonly queue: DiskQueue;
}

export interface ExportMount {
  /** Where the export is mounted, below the driver's own directory. */
  readonly mountPoint: string;
  /** The pool's own directory. */
  readonly root: string;
}

/** Mounts the export for the driver alone, and makes the pool's own directory in it: the last one of its path. */
export async function mountPrivately(options: ExportMountOptions): Promise<ExportMount> {
  const { dataDirectory, exported, name, path, queue } = options;
  const mountPoint = poolRoot(dataDirectory, name);
  await queue.run(() => mkdir(mountPoint, { recursive: true, mode: 0o700 }));
  // Left by a driver that was killed, or by a pool whose server was gone; no other program uses it.
  if ((await statusOf(queue, mountPoint)).isMountRoot) await forceUnmountNfs(mountPoint);
  const subject = `pool ${name}`;
  await using mounted = await mountExport(queue, {
    exported,
    options: ownOptions(options.options),
    attributes,
    subject,
  });
  await using target = await openDirectory(queue, mountPoint);
  await step('open/mount', () => placeMount(queue, mounted, { target, attributes }));
  try {
    await makeOwnDirectory(options, mountPoint);
    return { mountPoint, root: join(mountPoint, path) };
  } catch (error) {
    await forceUnmountNfs(mountPoint);
    throw error;
  }
}

async function makeOwnDirectory(
  { exported: { host, share }, name, path, queue }: ExportMountOptions,
  mountPoint: string,
): Promise<void> {
  const above = dirname(path);
  try {
    await using exported = await openReadOnly(queue, mountPoint);
    await using parent = await openBeneath(queue, exported, above === '.' ? '' : above);
    const own = path.slice(above === '.' ? 0 : above.length + 1);
    await makeDirectoryAt(queue, parent, own, 0o700).catch((error) => {
      if (!isErrno(error, 'EEXIST')) throw error;
    });
    // No link leads out of the share.
    await using _directory = await openBeneath(queue, parent, own);
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) {
      throw new FailedPrecondition(
        `pool ${name}: ${share} on ${host} has no directory ${above}. Only the pool's own directory is made.`,
      );
    }
    if (isErrno(error, 'ELOOP', 'EXDEV')) {
      throw new FailedPrecondition(
        `pool ${name}: its path ${path} leads through a symbolic link in ${share} on ${host}: name the directory itself.`,
      );
    }
    if (isErrno(error, 'EACCES', 'EPERM', 'EROFS')) {
      throw new FailedPrecondition(
        `pool ${name}: the driver may not write to ${share} on ${host}. Export it rw, with no_root_squash, or give the directory to the user that root is squashed to.`,
      );
    }
    throw error;
  }
}
