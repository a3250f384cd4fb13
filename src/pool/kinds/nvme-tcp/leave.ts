import { isHeldExclusively } from '../../../kernel/block/block.ts';
import { disconnectNvme, nvmeSubsystem } from '../../../kernel/block/nvme.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { liveFilesystem } from '../../../kernel/mount/mounted-device.ts';
import { Unavailable } from '../../../volume/errors.ts';
import { step } from '../../../volume/step.ts';
import type { VolumeOnNode } from '../../node-side.ts';
import { isOurs } from './connections.ts';
import { parseNvmeContext } from './context.ts';
import { namespacesOf } from './namespaces.ts';
import type { SubsystemState } from './subsystem-state.ts';

/**
 * The volume is not used here any more. Connections end with the last volume of the subsystem, unless another program uses one
 * of its namespaces through them.
 * @throws Unavailable as long as its filesystem is in use: another node would mount it then
 */
export async function leave(
  queue: DiskQueue,
  { notes }: SubsystemState,
  { context, handle }: Pick<VolumeOnNode, 'context' | 'handle'>,
): Promise<void> {
  const parsed = parseNvmeContext(context);
  for (const { devicePath, name } of namespacesOf(nvmeSubsystem(parsed.nqn), parsed)) {
    const live = liveFilesystem(devicePath);
    if (live === undefined) continue;
    throw new Unavailable(
      `volume ${handle}: its ${live} is still in use on ${name}: it is being written back, or is mounted in a container (see holdfast who). It is tried again.`,
    );
  }
  const { users } = notes.note;
  const others = users.filter((each) => each !== handle);
  if (others.length > 0) {
    if (others.length < users.length) await notes.write(queue, { ...notes.note, users: others });
    return;
  }
  if (await isUsedByOthers(queue, notes, parsed.nqn)) return;
  await disconnectOurs(queue, notes, parsed.nqn);
  await notes.remove(queue);
}

type Notes = SubsystemState['notes'];

/** Answers if another program or volume would lose a namespace with the connections of this driver. */
async function isUsedByOthers(queue: DiskQueue, { note }: Notes, nqn: string): Promise<boolean> {
  const { controllers, namespaces } = nvmeSubsystem(nqn);
  if (!controllers.some((each) => isOurs(note, each))) return false;
  if (controllers.some((each) => each.state === 'live' && !isOurs(note, each))) return false;
  for (const { devicePath } of namespaces) {
    if (await isHeld(queue, devicePath)) return true;
  }
  return false;
}

async function isHeld(queue: DiskQueue, devicePath: string): Promise<boolean> {
  try {
    return await isHeldExclusively(queue, devicePath);
  } catch (error) {
    // It goes at this moment.
    if (isErrno(error, 'ENOENT', 'ENXIO', 'ENODEV')) return false;
    throw error;
  }
}

/** Ends what this driver has connected, and nothing else. Reads and writes that wait for the server fail then. */
export async function disconnectOurs(queue: DiskQueue, { note }: Notes, nqn: string): Promise<void> {
  const ours = nvmeSubsystem(nqn).controllers.filter((each) => isOurs(note, each));
  await Promise.all(ours.map((each) => step('nvme/disconnect', () => disconnectNvme(queue, each))));
}
