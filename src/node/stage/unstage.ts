import { sameDevice } from '../../kernel/block/device.ts';
import { removeFileAt, statusOf } from '../../kernel/file/path.ts';
import { type Mount, readMountTable } from '../../kernel/mount/mount-table.ts';
import { isMountedAnywhere } from '../../kernel/mount/mounted-device.ts';
import { attachedDevices } from '../../pool/attached-device.ts';
import { mountsOf } from '../../pool/attached-mounts.ts';
import { detachUnseen } from '../../pool/detach-unseen.ts';
import type { Pool } from '../../pool/pool.ts';
import type { OwnedVolume } from '../../pool/pools.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { parseVolumeId, type VolumeId } from '../../volume/id.ts';
import { shortPath } from '../../volume/short-path.ts';
import { step } from '../../volume/step.ts';
import type { NodeContext } from '../context.ts';
import { detachUnmounted } from '../detach.ts';
import { findIfPossible } from '../find.ts';
import { type Unmounted, unmountStack } from '../mount/unmount-stack.ts';
import type { Notes } from '../notes.ts';
import { otherPaths, showsSameAs } from '../path/mounts.ts';
import type { LazyMountTable, Mounted } from '../path/observe.ts';
import { openPlace, openPlaceIn, type Place } from '../path/path-handle.ts';
import type { TargetPath } from '../path/target.ts';
import { planUnstage } from '../plan.ts';

/** An unstage, of a volume that nobody may know any more (US04). */
export interface UnstageRequest {
  readonly volumeId: string;
  readonly staging: TargetPath;
}

/** No slice of a trim is begun after it; what is left is for the timer, or for the next unstage. */
const trimBudgetMs = 200;

/** What NodeUnstageVolume does: observe, plan, apply. The staging directory stays: the caller made it (US05). */
export async function unstageVolume(context: NodeContext, { volumeId, staging }: UnstageRequest): Promise<void> {
  const id = parseVolumeId(volumeId);
  // No volume of ours has such an id, so nothing of it is mounted.
  if (id === undefined) return;
  const isUndone = (await unstageFilesystem(context, staging, id)) || (await unstageDevice(context, staging, id));
  const notes = await context.notes();
  const note = notes.read(id);
  // Never staged here, so there is nothing to undo, whatever is done with it there (US04).
  if (note !== undefined && note.path !== staging.path) return;
  if (!isUndone) await tidyUp(context, id, staging.path);
  await notes.forget(id, await optionsThatLiveOn(context, id, notes));
}

/** A filesystem that is mounted elsewhere on the node lives on with the options that it has. */
async function optionsThatLiveOn(context: NodeContext, id: VolumeId, notes: Notes): Promise<string | undefined> {
  const options = notes.optionsOf(id);
  const found = options === undefined ? undefined : await findIfPossible(context, id);
  if (found?.record.content.type !== 'mount') return undefined;
  const { fsType } = found.record.content;
  const devices = await attachedDevices(found.pool, id);
  return devices.some(({ devicePath }) => isMountedAnywhere(fsType, devicePath)) ? options : undefined;
}

async function unstageFilesystem(context: NodeContext, staging: TargetPath, id: VolumeId): Promise<boolean> {
  using place = await openPlace(context.queue, staging);
  if (place === undefined) return false;
  const { unmounted } = await unmountStaged(context, place, staging.path, id, 'mount');
  const pool = poolOf(unmounted);
  if (pool !== undefined) await detachUnmounted(context.queue, pool, id);
  return unmounted.length > 0;
}

async function unstageDevice(context: NodeContext, staging: TargetPath, id: VolumeId): Promise<boolean> {
  using place = await openPlaceIn(context.queue, staging, id);
  // Our file is in a directory of the caller's, never in what somebody mounted there.
  const directory = place && (await statusOf(context.queue, place.parent));
  if (place === undefined || directory?.kind !== 'directory' || directory.isMountRoot) return false;
  const { last, unmounted } = await unmountStaged(context, place, staging.path, id, 'block');
  if (last.occupant.kind === 'file') await removeStagedFile(context, place, last.occupant.isEmpty);
  const pool = poolOf(unmounted);
  if (pool !== undefined) await detachUnseen(context.queue, pool, id);
  return pool !== undefined;
}

function poolOf(unmounted: Unmounted['unmounted']): Pool | undefined {
  return unmounted.find(({ mounted }) => mounted?.owner?.pool !== undefined)?.mounted?.owner?.pool;
}

/** @param access what is staged in this way; the other was put there by something else, and is for that to undo */
function unmountStaged(
  context: NodeContext,
  place: Place,
  path: string,
  volumeId: VolumeId,
  access: Mounted['access'],
): Promise<Unmounted> {
  return unmountStack(context, place, volumeId, 'unstage/unmount', async (observed, mounts) => {
    if (observed.mounted !== undefined && observed.mounted.access !== access) return 'stop';
    const { mounted } = observed;
    const isForeign = mounted?.access === 'mount' && mounted.owner?.id !== volumeId;
    const publishedAt = mounted === undefined || isForeign ? [] : await othersOf(context, mounted, mounts);
    const plan = planUnstage({ volumeId, path, at: observed.occupant, publishedAt });
    if (plan !== 'unmount') return 'stop';
    if (access === 'mount') await trimWhileQuick(observed.mounted?.owner);
    return 'unmount';
  });
}

/** The last moment at which the filesystem can tell what is free. Whatever comes of it, the unstage goes on. */
async function trimWhileQuick(owner: OwnedVolume | undefined): Promise<void> {
  if (owner?.pool === undefined || owner.pool.trimming === 'off') return;
  await owner.pool.trim(owner.id, { fromBytes: 0n, budgetMs: trimBudgetMs }).catch(() => undefined);
}

/** Where else what is mounted can be seen: the same filesystem or directory, or a node of one of the volume's devices. */
async function othersOf(context: NodeContext, mounted: Mounted, mounts: LazyMountTable): Promise<string[]> {
  const { access, mount, owner } = mounted;
  const table = await mounts.read();
  if (access === 'mount') return otherPaths(table, showsSameAs(mount), { mounts: [mount] });
  // Read-only targets show another device of the volume (PB14). Which ones it has, only its pool can tell.
  const attached = owner?.pool === undefined ? [] : await owner.pool.attached(owner.id);
  const showsDevice = await mountsOf(context.queue, attached, table);
  const showsNode = (other: Mount) => sameDevice(other.device, mount.device) && other.root === mount.root;
  return otherPaths(table, (other) => showsNode(other) || showsDevice(other), { mounts: [mount] });
}

async function removeStagedFile(
  { queue }: NodeContext,
  { name, parent, path }: Place,
  isEmpty: boolean,
): Promise<void> {
  if (!isEmpty)
    throw new FailedPrecondition(`${shortPath(path)} has data in it that is not the volume's: move it away.`);
  await step('unstage/device', () => removeFileAt(queue, parent, name));
}

/**
 * Nothing is mounted at the staging path. If somebody else unmounted it while the volume was published, it still is
 * (US06); if the driver died on its way, a device may be left (T04).
 */
async function tidyUp(context: NodeContext, id: VolumeId, path: string): Promise<void> {
  const found = await findIfPossible(context, id);
  if (found === undefined) return;
  const { pool, record } = found;
  const attached = await pool.attached(id);
  if (attached.length === 0) return;
  const table = await readMountTable(context.queue);
  const publishedAt = otherPaths(table, await mountsOf(context.queue, attached, table), {});
  planUnstage({ volumeId: id, path, at: { kind: 'nothing' }, publishedAt });
  const detach = record.content.type === 'block' ? detachUnseen : detachUnmounted;
  await detach(context.queue, pool, id);
}
