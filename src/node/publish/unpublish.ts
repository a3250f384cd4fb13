import { isErrno } from '../../kernel/call/errno.ts';
import { detachUnseen } from '../../pool/detach-unseen.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { fileNameOf, type VolumeHandle } from '../../volume/handle.ts';
import { parseVolumeId } from '../../volume/id.ts';
import { shortPath } from '../../volume/short-path.ts';
import { step } from '../../volume/step.ts';
import type { NodeContext } from '../context.ts';
import { removeEphemeral } from '../ephemeral/remove.ts';
import { removeTarget } from '../mount/bind-target.ts';
import { type Unmounted, unmountStack } from '../mount/unmount-stack.ts';
import type { StageNote } from '../notes.ts';
import type { Observation } from '../path/observe.ts';
import { openPlace, type Place } from '../path/path-handle.ts';
import type { TargetPath } from '../path/target.ts';
import { planUnpublish, type UnpublishPlan } from '../plan.ts';

/** An unpublish, of a volume that may be unknown by now (UP05). */
export interface UnpublishRequest {
  readonly volumeId: VolumeHandle;
  /** The volume was made by its publish, if there was one. */
  readonly isEphemeral: boolean;
  readonly target: TargetPath;
}

/** NodeUnpublishVolume: observe, plan, apply. Needs neither the volume's record nor its pool (UP08). */
export async function unpublishVolume(context: NodeContext, request: UnpublishRequest): Promise<void> {
  const { isEphemeral, target, volumeId } = request;
  const note = (await context.notes()).read(volumeId);
  using place = await openPlace(context.queue, target);
  const undone = place === undefined ? undefined : await unpublishAt(context, place, volumeId, note);
  const ephemeralId = isEphemeral ? parseVolumeId(volumeId) : undefined;
  if (ephemeralId !== undefined && context.inline !== undefined) {
    await removeEphemeral(context, context.inline, ephemeralId);
  } else {
    await detachLastSeen(context, volumeId, undone);
    await context.volumes.letGo(volumeId, target.path);
  }
}

async function unpublishAt(
  context: NodeContext,
  place: Place,
  volumeId: VolumeHandle,
  note: StageNote | undefined,
): Promise<Unmounted> {
  const { path } = place;
  // A block volume is staged in a file with its id.
  const isStagingPath = note !== undefined && (path === note.path || path === `${note.path}/${fileNameOf(volumeId)}`);
  const isNoted = note !== undefined;
  const plan = ({ occupant }: Observation) => planUnpublish({ volumeId, path, at: occupant, isStagingPath, isNoted });
  const undone = await unmountStack(context, place, volumeId, 'unpublish/unmount', async (observed) =>
    plan(observed) === 'unmount' ? 'unmount' : 'stop',
  );
  await remove(context, place, plan(undone.last));
  return undone;
}

async function remove({ queue }: NodeContext, place: Place, plan: UnpublishPlan): Promise<void> {
  if (plan !== 'remove-directory' && plan !== 'remove-file') return;
  try {
    await step('unpublish/target', () => removeTarget(queue, place, plan === 'remove-directory'));
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return;
    if (!isErrno(error, 'ENOTEMPTY', 'EBUSY')) throw error;
    throw new FailedPrecondition(
      `${shortPath(place.path)} cannot be removed: it is in use, or has data that is not the volume's.`,
    );
  }
}

/**
 * A device of a block volume goes with the last place that shows it: that for read-only targets with the last of them
 * (PB14), the staged one if its place was moved away and is undone where it is now.
 */
async function detachLastSeen(context: NodeContext, id: VolumeHandle, undone: Unmounted | undefined): Promise<void> {
  const unmounted = undone?.unmounted[0]?.mounted;
  if (unmounted?.access === 'mount') return;
  const volume = unmounted?.owner?.access ?? (await blockVolume(context, id));
  if (volume !== undefined) await detachUnseen(context.queue, volume);
}

/** For a replay: its first try may have died between the unmount and the detach. */
async function blockVolume(context: NodeContext, id: VolumeHandle) {
  const found = await context.volumes.findIfPossible(id);
  return found?.volume.content.type === 'block' ? found.access : undefined;
}
