import type { Mount } from '../../kernel/mount/mount-table.ts';
import { attachedDevices } from '../../pool/attached-device.ts';
import { mountsOf } from '../../pool/attached-mounts.ts';
import type { FoundOnNode, VolumeAccess, VolumeOnNode } from '../../pool/node-side.ts';
import { allowsSeveralTargets } from '../../volume/capability.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { Secrets } from '../../volume/secrets.ts';
import type { NodeContext } from '../context.ts';
import { letGoAfter } from '../let-go-after.ts';
import { bindTarget, missingParent } from '../mount/bind-target.ts';
import { mountDirectory } from '../mount/mount-directory.ts';
import { unmountLost } from '../mount/unmount-stack.ts';
import { completeAttributes, wantedAttributes } from '../mount-options.ts';
import { otherPaths, showsSameAs } from '../path/mounts.ts';
import { identify, isLost, LazyMountTable, type Observation } from '../path/observe.ts';
import { openHandle, openPlace, type PathHandle, type Place } from '../path/path-handle.ts';
import { isReadonlyDevice } from '../path/sysfs.ts';
import type { TargetPath } from '../path/target.ts';
import { type Noted, planPublish, type WantedMount } from '../plan.ts';
import { isAttachedReadonly } from '../publication.ts';
import { contextDemand, type PublishRequest, requireFit } from '../request.ts';
import { notedStage, openStagingPlace, wantedWhenStaged } from '../stage/staging.ts';

/** NodePublishVolume: observe, plan, apply. */
export async function publishVolume(context: NodeContext, asked: PublishRequest): Promise<void> {
  const { demand, staging, target, volumeId } = asked;
  const found = await context.volumes.require(volumeId, asked.context, contextDemand(demand));
  const { access, volume } = found;
  requireFit(volume, demand);
  const request = { ...asked, isReadonly: asked.isReadonly || isAttachedReadonly(context, volume) };
  if (staging === undefined) throw new FailedPrecondition('staging_target_path is missing: stage the volume first.');
  const notes = await context.notes();
  const digest = notes.digest(demand.capability, volume.content);

  if (access.isLost !== undefined) {
    await replaceLost(context, found, { ...asked, staging }, notedStage(notes.read(volumeId), staging.path, digest));
  }
  using scene = await observe(context, volume, target, staging);
  const { at, handle, place, staged, stagedHandle } = scene;
  const wanted = wantedAtTarget(request, volume);
  const plan = planPublish({
    volumeId,
    path: target.path,
    stagingPath: staging.path,
    capability: demand.capability,
    wanted,
    at: at.occupant,
    staged: staged.occupant,
    wantedStaged: wantedWhenStaged(volume.content, demand),
    noted: notedStage(notes.read(volumeId), staging.path, digest),
    publishedAt: allowsSeveralTargets(demand.capability.mode) ? [] : await publishedAt(context, access, volume, scene),
    publishedOtherwise: volume.content.type === 'block' ? await publishedOtherwise(context, access, scene, wanted) : [],
  });
  if (plan === 'nothing' || stagedHandle === undefined) return;
  await context.volumes.hold(found, target.path);
  try {
    await bindTarget(context.queue, access, { place, handle, staged: stagedHandle.descriptor, wanted });
  } catch (error) {
    throw await letGoAfter(context, { volumeId, path: target.path }, error);
  }
}

/**
 * The process that served the volume has ended, and its mounts are of no use. Kubernetes stages a volume once for all pods of a
 * node, so it is staged again here; a crash may have come in between.
 */
async function replaceLost(
  context: NodeContext,
  { access, volume }: FoundOnNode,
  { demand, staging, target, volumeId }: PublishRequest & { readonly staging: TargetPath },
  noted: Noted,
): Promise<void> {
  using scene = await observe(context, volume, target, staging);
  const { at, handle, place, staged, stagedHandle, stagingPlace } = scene;
  if (await isLost(at)) (await unmountLost(context, place, volumeId, handle))?.[Symbol.dispose]();
  const isUndone = staged.occupant.kind === 'directory' && noted === 'same';
  const isStagedLost = noted !== 'different' && (await isLost(staged));
  if (stagingPlace === undefined || !(isUndone || isStagedLost)) return;
  using renewed = await unmountLost(context, stagingPlace, volumeId, stagedHandle);
  if (renewed === undefined) return;
  await mountDirectory(access, {
    ...wantedWhenStaged(volume.content, demand),
    target: renewed.descriptor,
    parameters: demand.options.parameters,
    secrets: new Secrets({}),
    beforehand: async () => undefined,
  });
}

/** The objects at the target and at the staging path, held open. */
interface Scene extends Disposable {
  readonly place: Place;
  readonly handle: PathHandle | undefined;
  readonly at: Observation;
  readonly stagingPlace: Place | undefined;
  readonly stagedHandle: PathHandle | undefined;
  readonly staged: Observation;
  readonly mounts: LazyMountTable;
}

async function observe(
  context: NodeContext,
  { content, handle: id }: VolumeOnNode,
  target: TargetPath,
  staging: TargetPath,
): Promise<Scene> {
  const { queue } = context;
  const [place, stagingPlace] = await settleBoth(
    openPlace(queue, target),
    openStagingPlace(context, staging, content, id),
  );
  const held: (Disposable | undefined)[] = [place, stagingPlace];
  const dispose = () => {
    for (const one of held) one?.[Symbol.dispose]();
  };
  try {
    if (place === undefined) throw missingParent(target.path);
    const openingStaged = stagingPlace === undefined ? Promise.resolve(undefined) : openHandle(queue, stagingPlace);
    const [handle, stagedHandle] = await settleBoth(openHandle(queue, place), openingStaged);
    held.push(handle, stagedHandle);
    const mounts = new LazyMountTable(queue);
    const [at, staged] = await Promise.all([
      identify(context, mounts, handle, id),
      identify(context, mounts, stagedHandle, id),
    ]);
    return { place, handle, at, stagingPlace, stagedHandle, staged, mounts, [Symbol.dispose]: dispose };
  } catch (error) {
    dispose();
    throw error;
  }
}

function wantedAtTarget({ demand, isReadonly }: PublishRequest, { content }: VolumeOnNode): WantedMount {
  if (content.type === 'block') return { access: 'block', attributes: completeAttributes({ readonly: isReadonly }) };
  return {
    access: 'mount',
    attributes: wantedAttributes(content, { ...demand.options.attributes, readonly: isReadonly }),
  };
}

/** Where else the volume can be seen on this node (PB06, PB08). */
async function publishedAt(
  { queue, volumes }: NodeContext,
  access: VolumeAccess,
  { content, handle }: VolumeOnNode,
  scene: Scene,
): Promise<string[]> {
  const stagedMount = scene.staged.mounted?.mount;
  if (stagedMount === undefined) return [];
  const shows =
    content.type === 'block'
      ? await mountsOf(queue, await access.attached(), await scene.mounts.read())
      : showsSameAs(stagedMount);
  return placesBesides(scene, (mount) => shows(mount) && !volumes.isOfAnother(mount, handle));
}

/** Where else a device of the volume can be seen that takes writes, if this one is not to, or the other way round (PB14). */
async function publishedOtherwise(
  { queue }: NodeContext,
  access: VolumeAccess,
  scene: Scene,
  { attributes }: WantedMount,
): Promise<string[]> {
  const devices = await Promise.all(
    (await attachedDevices(access, access.handle)).map(async (each) => ({
      ...each,
      readonly: await isReadonlyDevice(queue, each.device),
    })),
  );
  const otherwise = devices.filter(({ readonly }) => readonly !== attributes.readonly);
  if (otherwise.length === 0) return [];
  return placesBesides(scene, await mountsOf(queue, otherwise, await scene.mounts.read()));
}

/** Besides its staging path and the target. */
async function placesBesides(
  { at, mounts, place, staged, stagingPlace }: Scene,
  shows: (mount: Mount) => boolean,
): Promise<string[]> {
  const paths = [place.path, ...(stagingPlace === undefined ? [] : [stagingPlace.path])];
  return otherPaths(await mounts.read(), shows, { mounts: [staged.mounted?.mount, at.mounted?.mount], paths });
}

/** Awaits two things that hold something open, at once; if one fails, the other is let go. */
async function settleBoth<A extends Disposable | undefined, B extends Disposable | undefined>(
  first: Promise<A>,
  second: Promise<B>,
): Promise<[A, B]> {
  const [a, b] = await Promise.allSettled([first, second]);
  if (a.status === 'fulfilled' && b.status === 'fulfilled') return [a.value, b.value];
  for (const settled of [a, b]) if (settled.status === 'fulfilled') settled.value?.[Symbol.dispose]();
  throw a.status === 'rejected' ? a.reason : b.status === 'rejected' ? b.reason : new Error('unreachable');
}
