import { type DeviceNumber, sameDevice } from '../../kernel/device.ts';
import { removeFileAt, statusOf } from '../../kernel/file/path.ts';
import { type Mount, readMountTable } from '../../kernel/mount/mount-table.ts';
import { isMountedAnywhere, liveFilesystemOn } from '../../kernel/mount/mounted-device.ts';
import { attachedDevices } from '../../pool/attached-device.ts';
import { mountsOf } from '../../pool/attached-mounts.ts';
import { detachUnseen } from '../../pool/detach-unseen.ts';
import { unstaged } from '../../pool/events.ts';
import type { OwnedOnNode, VolumeAccess } from '../../pool/node-side.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { fileNameOf, parseHandle, type VolumeHandle } from '../../volume/handle.ts';
import { shortPath } from '../../volume/short-path.ts';
import { step } from '../../volume/step.ts';
import type { NodeContext } from '../context.ts';
import { detachUnmounted } from '../detach.ts';
import { type Unmounted, unmountStack } from '../mount/unmount-stack.ts';
import type { Notes } from '../notes.ts';
import { otherPaths, showsSameAs } from '../path/mounts.ts';
import type { LazyMountTable, Mounted } from '../path/observe.ts';
import { openPlace, openPlaceIn, type Place } from '../path/path-handle.ts';
import type { TargetPath } from '../path/target.ts';
import { planUnstage } from '../plan.ts';

/** An unstage, of a volume that may be unknown by now (US04). */
export interface UnstageRequest {
  readonly volumeId: string;
  readonly staging: TargetPath;
}

/** No slice of a trim is begun after it; the rest is for the timer, or for the next unstage. */
const trimBudgetMs = 200;

/** NodeUnstageVolume: observe, plan, apply. The staging directory stays: the caller made it (US05). */
export async function unstageVolume(context: NodeContext, { volumeId, staging }: UnstageRequest): Promise<void> {
  const id = parseHandle(volumeId);
  // No volume of ours has such an id, so nothing of it is mounted.
  if (id === undefined) return;
  const filesystem = await unstageFilesystem(context, staging, id);
  const isUndone = filesystem.isUndone || (await unstageDevice(context, staging, id));
  const notes = await context.notes();
  const note = notes.read(id);
  // Never staged here, so there is nothing to undo, whatever is done with it there (US04).
  if (note !== undefined && note.path !== staging.path) return;
  if (!isUndone) await tidyUp(context, id, staging.path);
  await notes.forget(id, filesystem.livesOn ? await optionsThatLiveOn(context, id, notes) : undefined);
  await context.volumes.letGo(id, staging.path);
  unstaged.publish({ volumeId });
}

/** A filesystem that is mounted elsewhere on the node lives on with the options that it has. */
async function optionsThatLiveOn(context: NodeContext, id: VolumeHandle, notes: Notes): Promise<string | undefined> {
  const options = notes.optionsOf(id);
  const found = options === undefined ? undefined : await context.volumes.findIfPossible(id);
  if (found?.volume.content.type !== 'mount') return undefined;
  const { fsType } = found.volume.content;
  const devices = await attachedDevices(found.access, id);
  return devices.some(({ devicePath }) => isMountedAnywhere(fsType, devicePath)) ? options : undefined;
}

interface UndoneFilesystem {
  readonly isUndone: boolean;
  /** false: the kernel no longer has the filesystem. */
  readonly livesOn: boolean;
}

async function unstageFilesystem(
  context: NodeContext,
  staging: TargetPath,
  id: VolumeHandle,
): Promise<UndoneFilesystem> {
  using place = await openPlace(context.queue, staging);
  if (place === undefined) return { isUndone: false, livesOn: true };
  const { unmounted } = await unmountStaged(context, place, staging.path, id, 'mount');
  const volume = volumeOf(unmounted);
  const livesOn = unmounted.length === 0 || unmounted.some(({ mounted }) => mayLiveOn(mounted?.device));
  if (volume !== undefined) await detachUnmounted(context.queue, volume, livesOn);
  return { isUndone: unmounted.length > 0, livesOn };
}

/** A look into sysfs, which opens nothing: to look for the volume's devices would keep one that is about to go. */
function mayLiveOn(device: DeviceNumber | undefined): boolean {
  return device === undefined || liveFilesystemOn(device) !== undefined;
}

async function unstageDevice(context: NodeContext, staging: TargetPath, id: VolumeHandle): Promise<boolean> {
  using place = await openPlaceIn(context.queue, staging, fileNameOf(id));
  // Our file is in a directory of the caller's, never in a filesystem that is mounted there.
  const directory = place && (await statusOf(context.queue, place.parent));
  if (place === undefined || directory?.kind !== 'directory' || directory.isMountRoot) return false;
  const { last, unmounted } = await unmountStaged(context, place, staging.path, id, 'block');
  if (last.occupant.kind === 'file') await removeStagedFile(context, place, last.occupant.isEmpty);
  const volume = volumeOf(unmounted);
  if (volume !== undefined) await detachUnseen(context.queue, volume);
  return volume !== undefined;
}

function volumeOf(unmounted: Unmounted['unmounted']): VolumeAccess | undefined {
  return unmounted.find(({ mounted }) => mounted?.owner?.access !== undefined)?.mounted?.owner?.access;
}

/** @param access a mount of this kind is undone; the other kind was made by another program, which must undo it */
function unmountStaged(
  context: NodeContext,
  place: Place,
  path: string,
  volumeId: VolumeHandle,
  access: Mounted['access'],
): Promise<Unmounted> {
  return unmountStack(context, place, volumeId, 'unstage/unmount', async (observed, mounts) => {
    if (observed.mounted !== undefined && observed.mounted.access !== access) return 'stop';
    const { mounted } = observed;
    const isForeign = mounted?.access === 'mount' && mounted.owner?.handle !== volumeId;
    const publishedAt = mounted === undefined || isForeign ? [] : await othersOf(context, mounted, mounts);
    const plan = planUnstage({ volumeId, path, at: observed.occupant, publishedAt });
    if (plan !== 'unmount') return 'stop';
    if (access === 'mount') await trimWhileQuick(observed.mounted?.owner);
    return 'unmount';
  });
}

/** The last moment at which the filesystem can report its free blocks. Whatever comes of it, the unstage goes on. */
async function trimWhileQuick(owner: OwnedOnNode | undefined): Promise<void> {
  const volume = owner?.access;
  if (volume === undefined || volume.trimming === 'off') return;
  await volume.trim({ fromBytes: 0n, budgetMs: trimBudgetMs }).catch(() => undefined);
}

/** Other places of the mounted object: the same filesystem or directory, or a node of one of the volume's devices. */
async function othersOf(context: NodeContext, mounted: Mounted, mounts: LazyMountTable): Promise<string[]> {
  const { access, mount, owner } = mounted;
  const table = await mounts.read();
  if (access === 'mount') {
    const showsSame = showsSameAs(mount);
    const isOfAnother = (other: Mount) => owner !== undefined && context.volumes.isOfAnother(other, owner.handle);
    return otherPaths(table, (other) => showsSame(other) && !isOfAnother(other), { mounts: [mount] });
  }
  // Read-only targets show another device of the volume (PB14). Which ones it has, only its pool can tell.
  const attached = (await owner?.access?.attached()) ?? [];
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
 * Nothing is mounted at the staging path. If it was unmounted by hand while the volume was published, it still is
 * (US06); if the driver died on its way, a device may be left (T04).
 */
async function tidyUp(context: NodeContext, id: VolumeHandle, path: string): Promise<void> {
  const found = await context.volumes.findIfPossible(id);
  if (found === undefined) return;
  const { access, volume } = found;
  const attached = await access.attached();
  if (attached.length === 0) return;
  const table = await readMountTable(context.queue);
  const shows = await mountsOf(context.queue, attached, table);
  const publishedAt = otherPaths(table, (mount) => shows(mount) && !context.volumes.isOfAnother(mount, id), {});
  planUnstage({ volumeId: id, path, at: { kind: 'nothing' }, publishedAt });
  const detach = volume.content.type === 'block' ? detachUnseen : detachUnmounted;
  await detach(context.queue, access);
}
