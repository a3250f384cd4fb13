import { basename } from 'node:path';
import { devicePathOf } from '../../kernel/block/device-node.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import type { DeviceNumber } from '../../kernel/device.ts';
import { statusOf } from '../../kernel/file/path.ts';
import { type Mount, readMountTable } from '../../kernel/mount/mount-table.ts';
import { deviceOfBtrfs, isBtrfs } from '../../kernel/mount/mounts-of-device.ts';
import type { OwnedOnNode } from '../../pool/node-side.ts';
import { Aborted } from '../../volume/errors.ts';
import type { NodeContext } from '../context.ts';
import { attributesShown, completeAttributes } from '../mount-options.ts';
import type { MountedOccupant, Occupant } from '../plan.ts';
import { mountsBelow } from './mounts.ts';
import { isEmptyDirectory, type PathHandle } from './path-handle.ts';
import { isReadonlyDevice } from './sysfs.ts';

/** The object at a path, and the kernel's names for it. */
export interface Observation {
  readonly occupant: Occupant;
  /** undefined: nothing is mounted there. */
  readonly mounted: Mounted | undefined;
}

/** The mount at a path. */
export interface Mounted {
  readonly mount: Mount;
  readonly access: 'block' | 'mount';
  /** The filesystem's device, or the one that the node stands for. */
  readonly device: DeviceNumber | undefined;
  readonly owner: OwnedOnNode | undefined;
}

/** Answers if the process that served the mount has ended: nothing can be read there ever again. */
export async function isLost({ mounted }: Pick<Observation, 'mounted'>): Promise<boolean> {
  if (mounted?.access !== 'mount') return false;
  return (await mounted.owner?.access?.isLost?.(mounted.mount)) ?? false;
}

/** The device of a mounted filesystem by the kernel's own name: any process can change the source of a mounted btrfs. */
export async function devicePathIn(queue: DiskQueue, { device, mount }: Mounted): Promise<string> {
  return device === undefined ? mount.source : await devicePathOf(queue, device);
}

/** The mount table, read once and only on demand. */
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
 * Finds out what a handle has opened. The table must be read after that was opened: an open object stays in it.
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
  const table = await mounts.read();
  // Later mounts are at the end.
  const mount = table.findLast(({ id }) => id === handle.mountId);
  if (mount === undefined) throw new Aborted('A mount went away while it was looked at; try again.');
  const device = isNode ? handle.represents : await deviceOf(context, mount);
  const owner = await context.volumes.ownerOf(
    isNode ? { device, mount: undefined, target: mount.target } : { device, mount, target: mount.target },
    volumeId,
  );
  const occupant: MountedOccupant = {
    kind: 'mount',
    volumeId: owner?.handle,
    access: isNode ? 'block' : 'mount',
    isWhole: owner === undefined ? isNode || mount.root === '/' : owner.isWhole,
    attributes: isNode
      ? completeAttributes({ readonly: device !== undefined && (await isReadonlyDevice(context.queue, device)) })
      : attributesShown(mount.options),
    coversOwn: owner?.handle !== volumeId && (await coversVolume(context, table, mount, volumeId)),
  };
  return { occupant, mounted: { mount, access: occupant.access, device, owner } };
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
  if (mount.device.major !== 0) return mount.device;
  return isBtrfs(mount) ? deviceOfBtrfs(queue, mount) : undefined;
}

async function representedBy(queue: DiskQueue, path: string): Promise<DeviceNumber | undefined> {
  try {
    return (await statusOf(queue, path)).represents;
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
}

async function coversVolume(
  context: NodeContext,
  table: readonly Mount[],
  top: Mount,
  volumeId: string,
): Promise<boolean> {
  for (const mount of mountsBelow(table, top)) {
    const seen = await context.volumes.ownerOf(
      { device: await deviceOf(context, mount), mount, target: mount.target },
      volumeId,
    );
    if (seen?.handle === volumeId) return true;
    const device = await nodeBelow(context, mount);
    if (device === undefined) continue;
    if (
      (await context.volumes.ownerOf({ device, mount: undefined, target: mount.target }, volumeId))?.handle === volumeId
    )
      return true;
  }
  return false;
}

/** A device node that is bind-mounted but hidden: its name in /dev is all that the mount table has of it. */
async function nodeBelow({ queue }: NodeContext, { root }: Mount): Promise<DeviceNumber | undefined> {
  return root === '/' ? undefined : representedBy(queue, `/dev/${basename(root)}`);
}
