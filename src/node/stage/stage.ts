import { statusOf } from '../../kernel/file/path.ts';
import { cloneMount } from '../../kernel/mount/mount.ts';
import type { VolumeAccess } from '../../pool/node-side.ts';
import { AlreadyExists, FailedPrecondition, InvalidArgument } from '../../volume/errors.ts';
import type { FilesystemType } from '../../volume/filesystem.ts';
import { shortPath } from '../../volume/short-path.ts';
import type { NodeContext } from '../context.ts';
import { letGoAfter } from '../let-go-after.ts';
import { mountDirectory } from '../mount/mount-directory.ts';
import { growUnlessFrozen, mountVolume } from '../mount/mount-volume.ts';
import { unmountLost } from '../mount/unmount-stack.ts';
import { filesystemIn } from '../path/condition.ts';
import { devicePathIn, identify, isLost, LazyMountTable, type Observation } from '../path/observe.ts';
import { openHandle, type PathHandle, type Place } from '../path/path-handle.ts';
import { planStage } from '../plan.ts';
import { requireAttached } from '../publication.ts';
import { contextDemand, requireFit, type StageRequest } from '../request.ts';
import { stageDevice } from './device.ts';
import { notedStage, openStagingPlace, stagedElsewhere, wantedWhenStaged } from './staging.ts';

/**
 * NodeStageVolume: observe, plan, apply.
 * @returns why the filesystem is still smaller than its volume; undefined: it is not
 */
export async function stageVolume(context: NodeContext, request: StageRequest): Promise<string | undefined> {
  const { demand, isFirstUse, secrets, staging, volumeId } = request;
  const found = await context.volumes.require(volumeId, request.context, contextDemand(demand));
  const { access, volume } = found;
  requireFit(volume, demand);
  requireAttached(context, volume);
  const { content } = volume;
  const notes = await context.notes();
  const note = notes.read(volumeId);
  const digest = notes.digest(demand.capability, content);
  using place = await openStagingPlace(context, staging, content, volumeId);
  if (place === undefined) throw missing(staging.path);
  if (content.type === 'block') await requireUnmounted(context, place, staging.path);
  using handle = await openHandle(context.queue, place);
  const wanted = wantedWhenStaged(content, demand);
  const observed = await identify(context, new LazyMountTable(context.queue), handle, volumeId);
  if (content.type !== 'block') requireDirectory(observed, staging.path);
  const noted = notedStage(note, staging.path, digest);
  const plan = planStage({
    volumeId,
    path: place.path,
    wanted,
    at: observed.occupant,
    noted,
    stagedElsewhere: await stagedElsewhere(context, volume, note, staging.path),
  });
  // If it is mounted elsewhere, its filesystem has the options of before.
  const earlierOptions = notes.optionsOf(volumeId);
  const write = (options?: string) => notes.write(volumeId, { path: staging.path, digest }, options);
  // Nothing is staged then, and no unstage will come: the kubelet sends none after a plain refusal.
  const withdrawNote = async (error: unknown): Promise<never> => {
    await notes.forget(volumeId, earlierOptions).catch(() => undefined);
    throw await letGoAfter(context, { volumeId, path: staging.path }, error);
  };
  // Before anything is attached.
  const hold = () => context.volumes.hold(found, staging.path).catch(withdrawNote);
  if (content.type === 'block') {
    if (plan === 'nothing') return undefined;
    await hold();
    await write();
    const { isReadonly } = demand;
    const device = { secrets, place, handle, isReadonly, isStale: plan === 'restore' };
    await stageDevice(context.queue, access, device).catch(withdrawNote);
    return undefined;
  }
  if (handle === undefined) throw missing(staging.path);
  const demanded = { target: handle.descriptor, parameters: demand.options.parameters, ...wanted };
  if (content.type === 'directory') {
    const isGone = plan === 'nothing' && (await isLost(observed));
    if (plan === 'nothing' && !isGone) return undefined;
    using renewed = isGone ? await unmountLost(context, place, volumeId, handle) : undefined;
    const target = renewed?.descriptor ?? demanded.target;
    await hold();
    await mountDirectory(access, { ...demanded, target, secrets, beforehand: () => write() }).catch(withdrawNote);
    return undefined;
  }
  const { fsType } = content;
  const options = notes.digestOfOptions(demand.options.parameters);
  if (plan === 'nothing') {
    // Noted as staged like this, by a try that died before it could note the options.
    if (noted === 'same' && earlierOptions !== options) await write(options);
    return await growAgain(access, fsType, observed, handle);
  }
  const hasNewParameters = earlierOptions !== undefined && earlierOptions !== options;
  // Before anything is mounted: a mount beside an older call's note would look like that call's work.
  const beforehand = () => write(hasNewParameters ? earlierOptions : options);
  const { provisioning } = volume;
  const mount = { ...demanded, ...{ beforehand, fsType, hasNewParameters, isFirstUse, provisioning, secrets } };
  await hold();
  // Awaited here: the place and the handle are held open until then.
  const { notGrown } = await mountVolume(access, mount).catch(withdrawNote);
  if (hasNewParameters) await write(options);
  return notGrown;
}

/** It may have grown since it was staged. ext4 grows before it is mounted, or by NodeExpandVolume. */
async function growAgain(
  access: VolumeAccess,
  fsType: FilesystemType,
  { mounted }: Observation,
  handle: PathHandle,
): Promise<string | undefined> {
  if (fsType === 'ext4' || mounted === undefined) return undefined;
  await using directory = cloneMount(access.queue, handle.descriptor, { readonly: false });
  const devicePath = await devicePathIn(access.queue, mounted);
  const { hidesFreeze } = filesystemIn(mounted.mount);
  return await growUnlessFrozen(access, { fsType, directory, devicePath, hidesFreeze });
}

/** The caller makes the directory, also for a block volume (ST08). */
function missing(path: string): FailedPrecondition {
  return new FailedPrecondition(`The staging directory ${shortPath(path)} does not exist: the caller makes it.`);
}

function requireDirectory({ occupant }: Observation, path: string): void {
  if (occupant.kind === 'nothing') throw missing(path);
  if (occupant.kind === 'file' || occupant.kind === 'other') {
    throw new InvalidArgument(`staging_target_path ${shortPath(path)} is no directory.`);
  }
}

/** A device is shown by a file in the staging directory, which must not land in a mounted filesystem. */
async function requireUnmounted({ queue }: NodeContext, { parent }: Place, path: string): Promise<void> {
  if (!(await statusOf(queue, parent)).isMountRoot) return;
  throw new AlreadyExists(`${shortPath(path)} has something mounted on it, so a block volume cannot be staged there.`);
}
