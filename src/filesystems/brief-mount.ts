import { attachLoop } from '../kernel/block/loop.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { type MountParameter, mountDetached } from '../kernel/mount/mount.ts';
import type { FilesystemType } from '../volume/filesystem.ts';

/** An image in tmp/ that only this driver sees. */
export interface PrivateImage {
  readonly path: string;
  readonly fsType: FilesystemType;
  readonly blockSizeBytes: number;
}

/** Shows a private image as a device for the time of `work`. */
export async function withDevice<T>(
  queue: DiskQueue,
  { path, blockSizeBytes }: Pick<PrivateImage, 'blockSizeBytes' | 'path'>,
  work: (devicePath: string) => Promise<T>,
): Promise<T> {
  const label = 'holdfast draft';
  const loop = await attachLoop(queue, { backing: path, label, readonly: false, autoclear: true, blockSizeBytes });
  await using _hold = loop.descriptor;
  return await work(loop.devicePath);
}

/** Mounts and unmounts, out of sight of all programs: replays a journal, and shows that the filesystem can be mounted. */
export async function mountBriefly(
  queue: DiskQueue,
  fsType: FilesystemType,
  devicePath: string,
  parameters: readonly MountParameter[] = [],
): Promise<void> {
  const mount = await mountDetached(queue, { fsType, source: devicePath, parameters, attributes: {} });
  await mount[Symbol.asyncDispose]();
}
