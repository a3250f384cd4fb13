import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { isAtOrIn } from '../../config/locations.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { sameDevice } from '../../kernel/device.ts';
import { isNodeOf, type Mount, readMountTable } from '../../kernel/mount/mount-table.ts';
import { mountsOfDevices, type ShowsDevice } from '../../kernel/mount/mounts-of-device.ts';
import { isReadonlyDevice } from '../../node/path/sysfs.ts';
import type { PoolContents, Shown } from '../../pool/sight.ts';
import type { VolumeId } from '../../volume/id.ts';
import { parseJsonInput } from '../../volume/parse-input.ts';

export type VolumeState = 'detached' | 'attached' | 'staged' | 'published';

/** Where a volume is in use on this node, as the kernel has it. */
export interface Attachments {
  readonly state: VolumeState;
  readonly devices: readonly { readonly path: string; readonly readonly: boolean }[];
  readonly stagedAt: readonly string[];
  readonly publishedAt: readonly { readonly path: string; readonly readonly: boolean }[];
}

export interface AttachmentsOptions extends Pick<PoolContents, 'records' | 'shown'> {
  readonly notesDirectory: string;
}

/** Where volumes of one pool are in use: what mounts there are of what shows them. */
export async function attachmentsOf(
  queue: DiskQueue,
  { notesDirectory, records, shown }: AttachmentsOptions,
): Promise<ReadonlyMap<VolumeId, Attachments>> {
  const mounts = shown.size === 0 ? [] : await readMountTable(queue);
  const devices = [...shown.values()].flat().flatMap((each) => (each.kind === 'device' ? [each.device] : []));
  const shows = await mountsOfDevices(queue, mounts, { devices });
  const view: KernelView = { queue, notesDirectory, mounts, shows };
  const ofEach = records.map(async ({ id }) => [id, await attachmentOf(view, id, shown.get(id) ?? [])] as const);
  return new Map(await Promise.all(ofEach));
}

interface KernelView {
  readonly queue: DiskQueue;
  readonly notesDirectory: string;
  readonly mounts: readonly Mount[];
  readonly shows: ShowsDevice;
}

interface Device {
  readonly path: string;
  readonly readonly: boolean;
}

async function attachmentOf(view: KernelView, id: VolumeId, shown: readonly Shown[]): Promise<Attachments> {
  const devices = await Promise.all(shown.flatMap((each) => (each.kind === 'device' ? [deviceOf(view, each)] : [])));
  const mounts = view.mounts.filter((mount) => shown.some((each) => isOf(view, mount, each)));
  const stagingPath = mounts.length === 0 ? undefined : await stagingPathOf(view, id);
  const isStaging = ({ target }: Mount) => stagingPath !== undefined && isAtOrIn(target, stagingPath);
  const stagedAt = mounts.filter(isStaging).map(({ target }) => target);
  const publishedAt = mounts
    .filter((mount) => !isStaging(mount))
    .map((mount) => ({ path: mount.target, readonly: isReadonly(mount, devices) }));
  return {
    state: stateOf(devices.length, stagedAt.length, publishedAt.length),
    devices,
    stagedAt,
    publishedAt,
  };
}

/** A block volume's device refuses writes by a mark that only sysfs shows. */
async function deviceOf({ queue }: KernelView, { device, path }: Extract<Shown, { kind: 'device' }>): Promise<Device> {
  return { path, readonly: await isReadonlyDevice(queue, device) };
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

function isOf({ shows }: KernelView, mount: Mount, shown: Shown): boolean {
  if (shown.kind === 'directory') return mount.root === shown.root && sameDevice(mount.device, shown.device);
  // A filesystem on the device, or the device's node on a file.
  return shows(mount, shown.device) === true || isNodeOf(mount, shown.path);
}

function isReadonly(mount: Mount, devices: readonly Device[]): boolean {
  const node = devices.find(({ path }) => isNodeOf(mount, path));
  return node === undefined ? mount.options.includes('ro') : node.readonly;
}

function stateOf(devices: number, staged: number, published: number): VolumeState {
  if (published > 0) return 'published';
  if (staged > 0) return 'staged';
  return devices > 0 ? 'attached' : 'detached';
}
