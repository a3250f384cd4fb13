import { statusOf } from '../kernel/path.ts';
import type { Pool } from '../pool/pool.ts';
import { AlreadyExists, FailedPrecondition, InvalidArgument } from '../volume/errors.ts';
import type { FilesystemType } from '../volume/filesystem.ts';
import { shortPath } from '../volume/short-path.ts';
import { requireAttached } from './attachment.ts';
import { stageDevice } from './block.ts';
import type { NodeContext } from './context.ts';
import { type Look, lookAt, type Place } from './look.ts';
import { growStaged, mountVolume, type VolumeMount } from './mount-volume.ts';
import { identify, LazyMountTable, type Sight } from './observe.ts';
import { planStage } from './plan.ts';
import { requireFit, type StageRequest } from './request.ts';
import { notedStage, openStagingPlace, stagedElsewhere, wantedWhenStaged } from './staging.ts';

/** What NodeStageVolume does: observe, plan, apply. */
export async function stageVolume(context: NodeContext, request: StageRequest): Promise<void> {
  const { demand, staging, volumeId } = request;
  const { pool, record } = await context.pools.require(volumeId);
  requireFit(record, demand);
  requireAttached(context, record);
  const { content } = record;
  const notes = await context.notes();
  const note = notes.read(volumeId);
  const digest = notes.digest(demand.capability, content);
  using place = await openStagingPlace(context, staging, content, volumeId);
  if (place === undefined) throw missing(staging.path);
  if (content.type === 'block') await requireUnmounted(context, place, staging.path);
  using look = await lookAt(context.lane, place);
  const wanted = wantedWhenStaged(content, demand);
  const sight = await identify(context, new LazyMountTable(context.lane), look, volumeId);
  if (content.type === 'mount') requireDirectory(sight, staging.path);
  const plan = planStage({
    volumeId,
    path: place.path,
    wanted,
    at: sight.occupant,
    noted: notedStage(note, staging.path, digest),
    stagedElsewhere: await stagedElsewhere(context, record, note, staging.path),
  });
  // Written before anything is mounted: a mount beside an older call's note would look like that call's work.
  const writeNote = () => notes.write(volumeId, { path: staging.path, digest });
  // Nothing is staged then, and nobody has to come and unstage it: the kubelet does not, after a plain refusal.
  const withdrawNote = async (error: unknown): Promise<never> => {
    await notes.forget(volumeId).catch(() => undefined);
    throw error;
  };
  if (content.type === 'block') {
    if (plan === 'nothing') return;
    await writeNote();
    const device = { volumeId, place, look, isStale: plan === 'restore' };
    return await stageDevice(context.lane, pool, device).catch(withdrawNote);
  }
  if (look === undefined) throw missing(staging.path);
  const { fsType } = content;
  const { parameters } = demand.options;
  if (plan === 'nothing') return await growAgain(pool, fsType, sight, look);
  const { attributes } = wanted;
  const mount = { volumeId, fsType, parameters, attributes, target: look.descriptor, beforehand: writeNote };
  // Awaited here: the place and the look are held open until then.
  const grows = await mountVolume(pool, mount).catch(withdrawNote);
  if (grows && !attributes.readonly) await growMountedRoot(context, pool, mount, place);
}

async function growMountedRoot(context: NodeContext, pool: Pool, mount: VolumeMount, place: Place): Promise<void> {
  // The mounted root; the look that came before has the directory below it.
  using root = await lookAt(context.lane, place);
  const { mounted } = await identify(context, new LazyMountTable(context.lane), root, mount.volumeId);
  if (root === undefined || mounted === undefined) throw missing(place.path);
  await growStaged(pool, mount.fsType, root.descriptor, mounted.mount.source);
}

/** An earlier try may have died between the mount and its growth. ext4 grows before it is mounted. */
async function growAgain(pool: Pool, fsType: FilesystemType, { mounted }: Sight, look: Look): Promise<void> {
  if (fsType === 'ext4' || mounted === undefined || mounted.mount.options.includes('ro')) return;
  await growStaged(pool, fsType, look.descriptor, mounted.mount.source);
}

/** The caller makes the directory, also for a block volume (ST08). */
function missing(path: string): FailedPrecondition {
  return new FailedPrecondition(`The staging directory ${shortPath(path)} does not exist: the caller makes it.`);
}

function requireDirectory({ occupant }: Sight, path: string): void {
  if (occupant.kind === 'nothing') throw missing(path);
  if (occupant.kind === 'file' || occupant.kind === 'other') {
    throw new InvalidArgument(`staging_target_path ${shortPath(path)} is no directory.`);
  }
}

/** A device is shown by a file in the staging directory, which must not land in somebody's filesystem. */
async function requireUnmounted({ lane }: NodeContext, { parent }: Place, path: string): Promise<void> {
  if (!(await statusOf(lane, parent)).isMountRoot) return;
  throw new AlreadyExists(`${shortPath(path)} has something mounted on it, so a block volume cannot be staged there.`);
}
