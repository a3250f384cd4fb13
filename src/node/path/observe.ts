import { basename } from 'node:path';
import { type DeviceNumber, sameDevice } from '../../kernel/block/device.ts';
import { loopBackingPath } from '../../kernel/block/loop-sysfs.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { statusOf } from '../../kernel/file/path.ts';
import { isNodeOf, type Mount, readMountTable } from '../../kernel/mount/mount-table.ts';
import type { AttachedDevice, Pool } from '../../pool/pool.ts';
import { Aborted } from '../../volume/errors.ts';
import { type VolumeId, volumeIdInPath } from '../../volume/id.ts';
import type { NodeContext } from '../context.ts';
import { attributesShown, completeAttributes } from '../mount/mount-options.ts';
import type { MountedOccupant, Occupant } from '../plan.ts';
import { isEmptyDirectory, type PathHandle } from './path-handle.ts';
import { isReadonlyDevice } from './sysfs.ts';

/** Whose device something is. `pool` is undefined if the pool is not open: its volumes can still be undone (UP08). */
export interface Owner {
  readonly id: VolumeId;
  readonly pool: Pool | undefined;
}

/** What lies at a path, and the kernel's names for it. */
export interface Observation {
  readonly occupant: Occupant;
  /** undefined: nothing is mounted there. */
  readonly mounted: Mounted | undefined;
}

/** What is mounted at a path. */
export interface Mounted {
  readonly mount: Mount;
  readonly access: 'block' | 'mount';
  /** Of the filesystem, or what the node stands for. */
  readonly device: DeviceNumber | undefined;
  readonly owner: Owner | undefined;
}

/** The mount table, read once and only if somebody asks. */
export class LazyMountTable {
  readonly #queue: DiskQueue;
  #table: Promise<Mount[]> | undefined;

  constructor(queue: DiskQueue) {
    this.#queue = queue;
  }

  read(): Promise<Mount[]> {
    this.#table ??= readMountTable(this.#queue);
    return this.#table;
  }
}

/**
 * Finds out what a look has found. The table must be read after the look: what is held open stays in it.
 * @param volumeId which volume is asked about
 */
export async function identify(
  context: NodeContext,
  mounts: LazyMountTable,
  handle: PathHandle | undefined,
  volumeId: string,
): Promise<Observation> {
  if (handle === undefined) return { occupant: { kind: 'nothing' }, mounted: undefined };
  if (!handle.isMountRoot) return { occupant: await unmounted(context, handle), mounted: undefined };
  const isNode = handle.kind === 'block';
  const access = isNode ? 'block' : 'mount';
  // Most filesystems tell their device at once: then both questions are asked at the same time.
  const shown = isNode ? handle.represents : handle.device.major === 0 ? undefined : handle.device;
  const [table, ownerShown] = await Promise.all([mounts.read(), shown && ownerOf(context, shown)]);
  const mount = table.find(({ id }) => id === handle.mountId);
  if (mount === undefined) throw new Aborted('A mount went away while it was looked at; try again.');
  const device = shown ?? (await deviceOf(context, mount));
  const owner = shown === undefined && device !== undefined ? await ownerOf(context, device) : ownerShown;
  const occupant: MountedOccupant = {
    kind: 'mount',
    volumeId: owner?.id,
    access,
    isWhole: isNode || mount.root === '/',
    attributes: isNode
      ? completeAttributes({ readonly: device !== undefined && (await isReadonlyDevice(context.queue, device)) })
      : attributesShown(mount.options),
    coversOwn: owner?.id !== volumeId && (await coversVolume(context, table, mount, volumeId)),
  };
  return { occupant, mounted: { mount, access, device, owner } };
}

async function unmounted({ queue }: NodeContext, handle: PathHandle): Promise<Occupant> {
  switch (handle.kind) {
    case 'directory':
      return { kind: 'directory', isEmpty: await isEmptyDirectory(queue, handle.descriptor) };
    case 'file':
      return { kind: 'file', isEmpty: handle.sizeBytes === 0n };
    default:
      return { kind: 'other' };
  }
}

/** The block device of a mounted filesystem; undefined if it has none. */
async function deviceOf({ queue }: NodeContext, mount: Mount): Promise<DeviceNumber | undefined> {
  // Filesystems on more than one device, such as btrfs, have a number of their own (major 0) and name a device.
  if (mount.device.major !== 0) return mount.device;
  if (mount.fsType !== 'btrfs') return undefined;
  return representedBy(queue, mount.source);
}

async function representedBy(queue: DiskQueue, path: string): Promise<DeviceNumber | undefined> {
  try {
    return (await statusOf(queue, path)).represents;
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
}

/** Which volume a device belongs to, known to a record or not, on whichever pool, open or not. */
export async function ownerOf({ pools }: NodeContext, device: DeviceNumber): Promise<Owner | undefined> {
  const isOnlyPoolOpen = pools.names().length === 1 && pools.all().length === 1;
  // A loop device shows the name of its image, so that no other pool's disk need be asked, nor one that is sick.
  const shown = isOnlyPoolOpen ? undefined : volumeIdInPath(loopBackingPath(device) ?? '');
  const known = await pools.volumeSeen({ device, mount: undefined }, shown);
  return known ?? (shown === undefined ? undefined : { id: shown, pool: undefined });
}

async function coversVolume(
  context: NodeContext,
  table: readonly Mount[],
  top: Mount,
  volumeId: string,
): Promise<boolean> {
  for (const mount of mountsBelow(table, top)) {
    const device = (await deviceOf(context, mount)) ?? (await nodeBelow(context, mount));
    if (device !== undefined && (await ownerOf(context, device))?.id === volumeId) return true;
  }
  return false;
}

/** The mounts that lie under this one at the same path, the upper ones first. */
export function mountsBelow(table: readonly Mount[], top: Mount): Mount[] {
  const below: Mount[] = [];
  let upper = top;
  for (;;) {
    const lower = table.find(({ id, target }) => id === upper.parentId && target === upper.target && id !== upper.id);
    if (lower === undefined) return below;
    below.push(lower);
    upper = lower;
  }
}

/** A device node that is bind-mounted but hidden: its name in /dev is all that the mount table has of it. */
async function nodeBelow({ queue }: NodeContext, { root }: Mount): Promise<DeviceNumber | undefined> {
  return root === '/' ? undefined : representedBy(queue, `/dev/${basename(root)}`);
}

/** Places where a volume can be seen, for `shows` tells its mounts, besides the ones that are known. */
export function otherPaths(
  table: readonly Mount[],
  shows: (mount: Mount) => boolean,
  known: { readonly mounts?: readonly (Mount | undefined)[]; readonly paths?: readonly string[] },
): string[] {
  const mounts = (known.mounts ?? []).filter((mount) => mount !== undefined);
  const paths = new Set([...(known.paths ?? []), ...mounts.map(({ target }) => target)]);
  const spots = new Set(mounts.map((mount) => spotOf(table, mount)));
  const others = table.filter((mount) => shows(mount) && !paths.has(mount.target) && !spots.has(spotOf(table, mount)));
  return [...new Set(others.map(({ target }) => target))];
}

/**
 * What a mount is mounted on, whatever path leads there. Where a tree is visible twice, as / and /host say, a mount in
 * it appears at both paths, on the same spot.
 */
function spotOf(table: readonly Mount[], { parentId, target }: Mount): string {
  const parent = table.find(({ id }) => id === parentId);
  if (parent === undefined) return target;
  const below = parent.target === '/' ? target : target.slice(parent.target.length);
  const { major, minor } = parent.device;
  return `${major}:${minor} ${parent.root === '/' ? '' : parent.root}${below}`;
}

/** Tells the mounts of these devices: of a filesystem on one, or of its node. */
export async function mountsOfDevices(
  queue: DiskQueue,
  devices: readonly AttachedDevice[],
): Promise<(mount: Mount) => boolean> {
  const nodes = await Promise.all(
    devices.map(async ({ device, devicePath }) => ({
      device,
      devicePath,
      filesystem: (await statusOf(queue, devicePath)).device,
    })),
  );
  return (mount) =>
    nodes.some(({ device, devicePath, filesystem }) => {
      if (sameDevice(mount.device, device)) return true;
      if (mount.device.major === 0 && mount.source === devicePath) return true;
      return sameDevice(mount.device, filesystem) && isNodeOf(mount, devicePath);
    });
}
