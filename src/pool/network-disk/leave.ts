import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import type { DeviceNumber } from '../../kernel/device.ts';
import { liveFilesystem } from '../../kernel/mount/mounted-device.ts';
import { Unavailable } from '../../volume/errors.ts';
import type { FilesystemType } from '../../volume/filesystem.ts';
import type { VolumeOnNode } from '../node-side.ts';
import { isHeld } from './held.ts';
import type { Target } from './target.ts';
import type { TargetState } from './target-state.ts';

/** The filesystem of a volume that is not mounted at its path any more is still in use. */
export class FilesystemInUse extends Unavailable {}

/** The filesystem of a volume that is in use on this node, and its device. */
export function filesystemInUse<C>(
  target: Target<C>,
  { notes }: TargetState<C>,
  volume: Pick<VolumeOnNode, 'context' | 'handle'>,
): { readonly filesystem: FilesystemType; readonly name: string; readonly device: DeviceNumber } | undefined {
  const left = target.devicesLeft?.(volume, notes.note) ?? [];
  for (const { device, devicePath, name } of [...target.devicesOf(volume, notes.note), ...left]) {
    const filesystem = liveFilesystem(devicePath);
    if (filesystem !== undefined) return { device, filesystem, name };
  }
  return undefined;
}

/**
 * The volume is not used here any more. Connections end with the last volume of the target, unless another program uses one
 * of its devices through them.
 * @throws FilesystemInUse as long as its filesystem is in use: another node would mount it then
 */
export async function leave<C>(
  queue: DiskQueue,
  target: Target<C>,
  state: TargetState<C>,
  volume: Pick<VolumeOnNode, 'context' | 'handle'>,
): Promise<void> {
  const { notes, uses } = state;
  const { handle } = volume;
  const { identities = {}, users } = notes.note;
  const staying = async (error: Unavailable) => {
    await target.resume?.(queue, volume, notes.note);
    return error;
  };
  const inUse = filesystemInUse(target, state, volume);
  if (inUse !== undefined) {
    const why = new FilesystemInUse(
      `volume ${handle}: its ${inUse.filesystem} is still in use on ${inUse.name}: it is being written back, or is mounted in a container (see holdfast who). It is tried again.`,
    );
    throw await staying(why);
  }
  const held = users.includes(handle) ? await target.heldBeyond?.(queue, volume, notes.note) : undefined;
  if (held !== undefined) {
    const why = new Unavailable(
      `volume ${handle}: ${held.name} is still held by a program or by devices on it (see lsblk): end them. It is tried again.`,
    );
    throw await staying(why);
  }
  uses.end(handle);
  const others = users.filter((each) => each !== handle);
  if (others.length > 0) {
    if (others.length === users.length) return;
    await target.drop?.(queue, volume, notes.note);
    const { [handle]: _, ...rest } = identities;
    const kept = notes.note.identities === undefined ? {} : { identities: rest };
    await notes.write(queue, { ...notes.note, users: others, ...kept });
    return;
  }
  if (await isUsedByOthers(queue, target, notes.note)) return;
  await target.disconnect(queue, notes.note);
  await notes.remove(queue);
}

/** Answers if another program would lose a device with the connections of this driver. */
async function isUsedByOthers<C>(
  queue: DiskQueue,
  target: Target<C>,
  note: TargetState<C>['notes']['note'],
): Promise<boolean> {
  for (const { devicePath } of target.devicesOfOurs(note)) {
    if (await isHeld(queue, devicePath)) return true;
  }
  return false;
}
