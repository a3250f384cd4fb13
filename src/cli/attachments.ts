import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { sameDevice } from '../kernel/block/device.ts';
import { type LoopStatus, listLoops } from '../kernel/block/loop.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { isErrno } from '../kernel/call/errno.ts';
import { statusOf } from '../kernel/file/path.ts';
import { isNodeOf, type Mount, readMountTable } from '../kernel/mount/mount-table.ts';
import { isReadonlyDevice } from '../node/path/sysfs.ts';
import type { Layout } from '../pool/records/layout.ts';
import { type VolumeId, volumeIdInPath } from '../volume/id.ts';
import { parseJsonInput } from '../volume/parse-input.ts';

export type VolumeState = 'detached' | 'attached' | 'staged' | 'published';

/** Where a volume is in use on this node, as the kernel has it. */
export interface Attachments {
  readonly state: VolumeState;
  readonly devices: readonly { readonly path: string; readonly readonly: boolean }[];
  readonly stagedAt: readonly string[];
  readonly publishedAt: readonly { readonly path: string; readonly readonly: boolean }[];
}

export interface AttachmentsOptions {
  readonly ids: readonly VolumeId[];
  readonly layout: Layout;
  readonly notesDirectory: string;
}

/**
 * Where volumes of one pool are in use. Devices of other pools are not even opened: those of a disk that hangs may hang,
 * too.
 */
export async function attachmentsOf(
  queue: DiskQueue,
  { ids, layout, notesDirectory }: AttachmentsOptions,
): Promise<ReadonlyMap<VolumeId, Attachments>> {
  if (ids.length === 0) return new Map();
  const wanted = new Set<string | undefined>(ids);
  const found = await listLoops(queue, (path) => wanted.has(volumeIdInPath(path)));
  // A block volume's device refuses writes by a mark that is no part of the loop device's own status.
  const withMark = async (loop: LoopStatus) => ({ ...loop, readonly: await isReadonlyDevice(queue, loop.device) });
  const loops = await Promise.all(found.map(withMark));
  const mounts = loops.length === 0 ? [] : await readMountTable(queue);
  const view: KernelView = { queue, layout, notesDirectory, loops, mounts };
  return new Map(await Promise.all(ids.map(async (id) => [id, await attachmentOf(view, id)] as const)));
}

interface KernelView extends Omit<AttachmentsOptions, 'ids'> {
  readonly queue: DiskQueue;
  readonly loops: readonly LoopStatus[];
  readonly mounts: readonly Mount[];
}

async function attachmentOf(view: KernelView, id: VolumeId): Promise<Attachments> {
  const loops = await loopsOf(view, id);
  const mounts = view.mounts.filter((mount) => loops.some((loop) => shows(mount, loop)));
  const stagingPath = mounts.length === 0 ? undefined : await stagingPathOf(view, id);
  const isStaging = ({ target }: Mount) => stagingPath !== undefined && isAtOrIn(target, stagingPath);
  const stagedAt = mounts.filter(isStaging).map(({ target }) => target);
  const publishedAt = mounts
    .filter((mount) => !isStaging(mount))
    .map((mount) => ({ path: mount.target, readonly: isReadonly(mount, loops) }));
  return {
    state: stateOf(loops.length, stagedAt.length, publishedAt.length),
    devices: loops.map(({ devicePath, readonly }) => ({ path: devicePath, readonly })),
    stagedAt,
    publishedAt,
  };
}

/** By inode, as the driver does; an image that is gone is known by the device's label. */
async function loopsOf({ queue, layout, loops }: KernelView, id: VolumeId): Promise<LoopStatus[]> {
  if (loops.length === 0) return [];
  try {
    const image = await statusOf(queue, layout.data(id));
    return loops.filter((loop) => sameDevice(loop.backingDevice, image.device) && loop.backingInode === image.inode);
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
    return loops.filter((loop) => loop.label === id);
  }
}

const noteFile = z.object({ staging: z.object({ path: z.string() }).optional() });

/** Which of the mounts is the staging one, only the driver's note can tell. */
async function stagingPathOf({ queue, notesDirectory }: KernelView, id: VolumeId): Promise<string | undefined> {
  try {
    const text = await queue.run(() => readFile(join(notesDirectory, `${id}.json`), 'utf8'));
    const note = parseJsonInput(noteFile, text);
    return 'data' in note ? note.data.staging?.path : undefined;
  } catch {
    return undefined;
  }
}

/** A filesystem on the device, or the device's node on a file. btrfs has a device number of its own (major 0). */
function shows(mount: Mount, loop: LoopStatus): boolean {
  if (sameDevice(mount.device, loop.device)) return true;
  return (mount.device.major === 0 && mount.source === loop.devicePath) || isNodeOf(mount, loop.devicePath);
}

function isReadonly(mount: Mount, loops: readonly LoopStatus[]): boolean {
  const node = loops.find((loop) => isNodeOf(mount, loop.devicePath));
  return node === undefined ? mount.options.includes('ro') : node.readonly;
}

function isAtOrIn(path: string, directory: string): boolean {
  return path === directory || path.startsWith(`${directory}/`);
}

function stateOf(loops: number, staged: number, published: number): VolumeState {
  if (published > 0) return 'published';
  if (staged > 0) return 'staged';
  return loops > 0 ? 'attached' : 'detached';
}
