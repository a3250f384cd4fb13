import { setTimeout as delay } from 'node:timers/promises';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import { type Descriptor, openReadOnly } from '../call/descriptor.ts';
import { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import type { Lent } from '../call/libc.ts';
import { sameDevice } from '../device.ts';
import { syncFilesystem } from '../file/filesystem.ts';
import { component } from '../file/path.ts';
import { type UnmountFlag, unmountNow, unmountPatiently } from '../mount/mount.ts';
import { type Mount, readMountTable } from '../mount/mount-table.ts';
import { askServer, defaultNfsPort, isReached, type NfsServer } from './server.ts';

const silentAfterMs = 2_000;
/** Pause between questions to the server while data is written back to it. */
const watchMs = 3_000;
const forcePausesMs = [0, 20, 100, 500, 1_000] as const;

export function isNfs({ fsType }: Pick<Mount, 'fsType'>): boolean {
  return fsType === 'nfs' || fsType === 'nfs4';
}

/** The server of a mount, as the kernel has it. */
export function serverOfMount({ superOptions }: Pick<Mount, 'superOptions'>): NfsServer | undefined {
  const optionOf = (key: string) => superOptions.find((option) => option.startsWith(`${key}=`))?.slice(key.length + 1);
  const host = optionOf('addr');
  if (host === undefined) return undefined;
  const protocol = optionOf('vers') === '3' ? 3 : 4;
  return { host, port: Number(optionOf('port') ?? defaultNfsPort), protocol };
}

export async function isAnswering(server: NfsServer): Promise<boolean> {
  return isReached(await askServer(server, silentAfterMs));
}

/**
 * Unmounts a mount of NFS, whatever its server does. With a server that answers, all that was written is on the server when the
 * last mount of it is gone. Otherwise the kernel's requests to it are ended with an error (MNT_FORCE), which loses what no
 * fsync(2) had covered, and a mount that is in use nevertheless is taken out of sight (MNT_DETACH): a second or two.
 * @throws KernelError EBUSY if it is in use and its server answers
 */
export async function unmountNfsAt(
  parent: Descriptor,
  name: string,
  mount: Pick<Mount, 'id' | 'device' | 'superOptions'>,
): Promise<void> {
  const where = `${parent.path}/${name}`;
  // One for each call: a thread that a dead server holds delays no other call.
  const queue = new DiskQueue(`unmount ${where}`, 2);
  const place: Place = { queue, where, target: () => parent.child(component(parent, name)) };
  const server = serverOfMount(mount);
  const isAlive = async () => server === undefined || (await isAnswering(server));
  if (await hasOthers(queue, mount)) return await unmountOneOfSeveral(place, isAlive);
  const isFlushed = server === undefined || ((await isAlive()) && (await flush(queue, parent, name, server)));
  if (isFlushed) await unmountPatiently(queue, place.target(), where);
  else await force(place);
}

/** The same for a mount of the driver itself, at its own path, without waiting for data to be written back. */
export async function forceUnmountNfs(path: string): Promise<void> {
  await force({ queue: new DiskQueue(`unmount ${path}`, 2), where: path, target: () => path });
}

interface Place {
  readonly queue: DiskQueue;
  readonly where: string;
  readonly target: () => string | Lent;
}

async function hasOthers(queue: DiskQueue, { device, id }: Pick<Mount, 'device' | 'id'>): Promise<boolean> {
  return (await readMountTable(queue)).some((other) => other.id !== id && sameDevice(other.device, device));
}

/** The server is not asked, as the filesystem stays mounted; its requests are those of other pods, too. */
async function unmountOneOfSeveral({ queue, target, where }: Place, isAlive: () => Promise<boolean>): Promise<void> {
  try {
    await unmountPatiently(queue, target(), where);
  } catch (error) {
    if (!isErrno(error, 'EBUSY') || (await isAlive())) throw error;
    await unmountNow(queue, target(), where, ['detach']);
  }
}

async function force(place: Place): Promise<void> {
  // The first try answers EBUSY: processes whose requests it has ended still have to notice.
  for (const pauseMs of forcePausesMs) {
    await delay(pauseMs);
    if (await unmounted(place, ['force'])) return;
  }
  await unmounted(place, ['force', 'detach']);
}

async function unmounted({ queue, target, where }: Place, flags: readonly UnmountFlag[]): Promise<boolean> {
  try {
    await unmountNow(queue, target(), where, flags);
    return true;
  } catch (error) {
    // Nothing is mounted there any more.
    if (isErrno(error, 'EINVAL')) return true;
    if (isErrno(error, 'EBUSY')) return false;
    throw error;
  }
}

/** @returns false if the server went away meanwhile */
async function flush(queue: DiskQueue, parent: Descriptor, name: string, server: NfsServer): Promise<boolean> {
  const flushing = parent.during((path) => syncAt(queue, `${path}/${name}`));
  for (;;) {
    const answer = await withTimeout(watchMs, flushing);
    if (answer !== 'late') return true;
    if (await isAnswering(server)) continue;
    if (!(await isAnswering(server))) return false;
  }
}

/** A mount that answers with an error, a stale handle for example, has nothing to be kept waiting for. */
async function syncAt(queue: DiskQueue, path: string): Promise<void> {
  try {
    await using root = await openReadOnly(queue, path);
    await syncFilesystem(queue, root);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
  }
}
