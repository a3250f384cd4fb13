import { listDisks } from '../../../../kernel/block/disks.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { FailedPrecondition } from '../../../../volume/errors.ts';
import type { Configured, OpenContext, ReadyBackend } from '../../../kind.ts';
import type { DiskOptions } from '../config.ts';
import { openDiskBackend } from '../open.ts';
import { readMembers, rememberMember } from './members.ts';

/** Opens the pool of a disk that was matched, wherever the disk is now. From then on this node knows that it has it. */
export async function openMatched(pool: Configured<DiskOptions>, context: OpenContext): Promise<ReadyBackend> {
  const { dataDirectory, queue } = context;
  const { name, own, section = '' } = pool;
  const known = (await readMembers(queue, dataDirectory)).find(({ poolName }) => poolName === name);
  const identity = known?.identity ?? own.identity ?? '';
  const device = await deviceNamed(queue, name, identity);
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
export async function deviceNamed(queue: DiskQueue, poolName: string, identity: string): Promise<string> {
  const found = (await listDisks(queue)).filter((disk) => disk.identity === identity);
  const [disk, other] = found;
  if (disk === undefined) {
    throw new FailedPrecondition(
      `pool ${poolName}: its disk (${identity}) is not on this node. Was it pulled? (holdfast disks shows those that are there.)`,
    );
  }
  if (other !== undefined) {
    throw new FailedPrecondition(
      `pool ${poolName}: ${disk.devicePath} and ${other.devicePath} both say that they are ${identity}. Take one of them out.`,
    );
  }
  return disk.devicePath;
}
