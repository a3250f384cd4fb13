import type { Mount } from '../../kernel/mount/mount-table.ts';
import { attachedDevices } from '../../pool/attached-device.ts';
import { mountsOf } from '../../pool/attached-mounts.ts';
import type { Pool } from '../../pool/pool.ts';
import { allowsSeveralTargets } from '../../volume/capability.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { NodeContext } from '../context.ts';
import { completeAttributes, wantedAttributes } from '../mount/mount-options.ts';
import { settleBoth } from '../mount/settle-both.ts';
import { otherPaths, showsSameAs } from '../path/mounts.ts';
import { identify, LazyMountTable, type Observation } from '../path/observe.ts';
import { openHandle, openPlace, type PathHandle, type Place } from '../path/path-handle.ts';
import { isReadonlyDevice } from '../path/sysfs.ts';
import type { TargetPath } from '../path/target.ts';
import { planPublish, type WantedMount } from '../plan.ts';
import { type PublishRequest, requireFit } from '../request.ts';
import { notedStage, openStagingPlace, wantedWhenStaged } from '../stage/staging.ts';
import { bindTarget, missingParent } from './bind-target.ts';
import { isAttachedReadonly } from './publication.ts';

/** What NodePublishVolume does: observe, plan, apply. */
export async function publishVolume(context: NodeContext, asked: PublishRequest): Promise<void> {
  const { demand, staging, target, volumeId } = asked;
  const { pool, record } = await context.pools.require(volumeId);
  requireFit(record, demand);
  const request = { ...asked, isReadonly: asked.isReadonly || isAttachedReadonly(context, record) };
  if (staging === undefined) throw new FailedPrecondition('staging_target_path is missing: stage the volume first.');
  const notes = await context.notes();
  const digest = notes.digest(demand.capability, record.content);

  using scene = await observe(context, record, target, staging);
  const { at, handle, place, staged, stagedHandle } = scene;
  const wanted = wantedAtTarget(request, record);
  const plan = planPublish({
    volumeId,
    path: target.path,
    stagingPath: staging.path,
    capability: demand.capability,
    wanted,
    at: at.occupant,
    staged: staged.occupant,
    wantedStaged: wantedWhenStaged(record.content, demand),
    noted: notedStage(notes.read(volumeId), staging.path, digest),
    publishedAt: allowsSeveralTargets(demand.capability.mode) ? [] : await publishedAt(context, pool, record, scene),
    publishedOtherwise:
      record.content.type === 'block' ? await publishedOtherwise(context, pool, record, scene, wanted) : [],
  });
  if (plan === 'nothing' || stagedHandle === undefined) return;
  await bindTarget(context.queue, pool, { place, handle, staged: stagedHandle.descriptor, wanted });
}

/** What there is at the target and at the staging path, held open. */
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
  { content, id }: VolumeRecord,
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

function wantedAtTarget({ demand, isReadonly }: PublishRequest, { content }: VolumeRecord): WantedMount {
  if (content.type === 'block') return { access: 'block', attributes: completeAttributes({ readonly: isReadonly }) };
  return {
    access: 'mount',
    attributes: wantedAttributes(content, { ...demand.options.attributes, readonly: isReadonly }),
  };
}

/** Where else the volume can be seen on this node (PB06, PB08). */
async function publishedAt(
  { queue }: NodeContext,
  pool: Pool,
  { content, id }: VolumeRecord,
  scene: Scene,
): Promise<string[]> {
  const stagedMount = scene.staged.mounted?.mount;
  if (stagedMount === undefined) return [];
  const shows =
    content.type === 'block'
      ? await mountsOf(queue, await pool.attached(id), await scene.mounts.read())
      : showsSameAs(stagedMount);
  return placesBesides(scene, shows);
}

/** Where else a device of the volume can be seen that takes writes, if this one is not to, or the other way round (PB14). */
async function publishedOtherwise(
  { queue }: NodeContext,
  pool: Pool,
  { id }: VolumeRecord,
  scene: Scene,
  { attributes }: WantedMount,
): Promise<string[]> {
  const devices = await Promise.all(
    (await attachedDevices(pool, id)).map(async (each) => ({
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
