import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { liveFilesystem } from '../../kernel/mount/mounted-device.ts';
import { Unavailable } from '../../volume/errors.ts';
import type { VolumeOnNode } from '../node-side.ts';
import { isHeld } from './held.ts';
import type { Target } from './target.ts';
import type { TargetState } from './target-state.ts';

/**
 * The volume is not used here any more. Connections end with the last volume of the target, unless another program uses one
 * of its devices through them.
 * @throws Unavailable as long as its filesystem is in use: another node would mount it then
 */
export async function leave<C>(
  queue: DiskQueue,
  target: Target<C>,
  { notes, uses }: TargetState<C>,
  volume: Pick<VolumeOnNode, 'context' | 'handle'>,
): Promise<void> {
  const { handle } = volume;
  const { identities = {}, users } = notes.note;
  const refused = async (reason: string) => {
    await target.resume?.(queue, volume, notes.note);
    return new Unavailable(`volume ${handle}: ${reason}. It is tried again.`);
  };
  const left = target.devicesLeft?.(volume, notes.note) ?? [];
  for (const { devicePath, name } of [...target.devicesOf(volume, notes.note), ...left]) {
    const live = liveFilesystem(devicePath);
    if (live === undefined) continue;
    throw await refused(
      `its ${live} is still in use on ${name}: it is being written back, or is mounted in a container (see holdfast who)`,
    );
  }
  const held = users.includes(handle) ? await target.heldBeyond?.(queue, volume, notes.note) : undefined;
  if (held !== undefined) {
    throw await refused(`${held.name} is still held by a program or by devices on it (see lsblk): end them`);
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
