import { listDisks } from '../../../../kernel/block/disks.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { FailedPrecondition } from '../../../../volume/errors.ts';
import type { Configured, OpenContext, ReadyBackend } from '../../../kind.ts';
import { readMembers, rememberMember } from '../../../location/match/members.ts';
import { markerPathOf, readMarker } from '../../../records/pool-file.ts';
import type { DiskOptions } from '../config.ts';
import { openDiskBackend } from '../open.ts';
import { withLabelOf } from '../twins.ts';

/** Opens the pool of a disk that was matched, wherever the disk is now. From then on this node knows that it has it. */
export async function openMatched(pool: Configured<DiskOptions>, context: OpenContext): Promise<ReadyBackend> {
  const { dataDirectory, queue } = context;
  const { name, own, section = '' } = pool;
  const known = (await readMembers(queue, dataDirectory)).find(({ poolName }) => poolName === name);
  const identity = known?.identity ?? own.identity ?? '';
  const device = await deviceOfMember(context, name, identity);
  const ready = await openDiskBackend({ ...context, ...own, name, device, identity });
  if (known !== undefined) return ready;
  try {
    await rememberMember(queue, dataDirectory, { poolName: name, section, identity });
  } catch (error) {
    await ready.backend.close();
    throw error;
  }
  return ready;
}

/** Where the kernel has the disk now. @throws FailedPrecondition */
export async function deviceOfMember(
  { dataDirectory, queue }: Pick<OpenContext, 'dataDirectory' | 'queue'>,
  poolName: string,
  identity: string,
): Promise<string> {
  const poolId = await readMarker(queue, markerPathOf(dataDirectory, poolName));
  return chooseDevice(queue, { poolName, identity, poolId }, await pathsWithIdentity(queue, identity));
}

/** Device paths of all disks with this identity: one, unless disks report the same of themselves. */
export async function pathsWithIdentity(queue: DiskQueue, identity: string): Promise<readonly string[]> {
  const disks = await listDisks(queue);
  return disks.filter((disk) => disk.identity === identity).map(({ devicePath }) => devicePath);
}

/** Facts that this node knows of a pool and its disk. */
interface KnownPool {
  readonly poolName: string;
  readonly identity: string;
  /** undefined: it was never open here. */
  readonly poolId: string | undefined;
}

/**
 * Chooses, among disks with one identity, the disk that has the pool. Opening the pool later refuses copies, as for each disk.
 * A pool that was never open here has no label to choose by. @throws FailedPrecondition
 */
export async function chooseDevice(
  queue: DiskQueue,
  { identity, poolId, poolName }: KnownPool,
  paths: readonly string[],
): Promise<string> {
  const [path, ...others] = paths;
  if (path === undefined) {
    throw new FailedPrecondition(
      `pool ${poolName}: its disk (${identity}) is not on this node. Was it pulled? (holdfast disks shows those that are there.)`,
    );
  }
  if (others.length === 0) return path;
  const all = paths.join(' and ');
  if (poolId === undefined) {
    throw new FailedPrecondition(`pool ${poolName}: ${all} all say that they are ${identity}. Take all but one out.`);
  }
  const [own] = await withLabelOf(queue, paths, poolId);
  if (own !== undefined) return own;
  throw new FailedPrecondition(
    `pool ${poolName}: ${all} all say that they are ${identity}, and none has the label of the pool. Put its disk back.`,
  );
}
