import { requireGrowable } from '../filesystems/growable.ts';
import { deviceSizeBytes } from '../kernel/block/block.ts';
import type { Descriptor } from '../kernel/call/descriptor.ts';
import { isErrno } from '../kernel/call/errno.ts';
import { requireThawed } from '../kernel/mount/freeze.ts';
import { growMounted } from '../kernel/mount/grow.ts';
import { cloneMount } from '../kernel/mount/mount.ts';
import type { VolumeAccess, VolumeOnNode } from '../pool/node-side.ts';
import { sizeMultiple } from '../pool/pool.ts';
import { excess, type VolumeCapability } from '../volume/capability.ts';
import { FailedPrecondition, InvalidArgument } from '../volume/errors.ts';
import type { FilesystemType } from '../volume/filesystem.ts';
import type { VolumeHandle } from '../volume/handle.ts';
import { type CapacityRange, chooseSize } from '../volume/size.ts';
import { step } from '../volume/step.ts';
import type { NodeContext } from './context.ts';
import { filesystemIn } from './path/condition.ts';
import { type Located, locate, requireVolumePath } from './path/locate.ts';
import { devicePathIn } from './path/observe.ts';

export interface ExpandRequest {
  readonly volumeId: VolumeHandle;
  readonly path: string;
  readonly range: CapacityRange | undefined;
  readonly capability: VolumeCapability | undefined;
}

/**
 * NodeExpandVolume: the volume, its device and its filesystem grow, as far as each is not large enough yet.
 * @returns the size that the volume has then
 */
export async function expandVolume(context: NodeContext, request: ExpandRequest): Promise<bigint> {
  const { capability, path, range, volumeId } = request;
  const { access, volume } = await context.volumes.requireKnown(volumeId);
  const { content } = volume;
  const reason = capability === undefined ? undefined : excess(volume, capability);
  if (reason !== undefined) throw new InvalidArgument(`volume ${volumeId}: ${reason}.`);
  requireVolumePath(context, path, volumeId);
  using located = await locate(context, path, volumeId);
  // Without a size: as large as the device is (NE06). Never smaller than it is now.
  const currentBytes = volume.sizeBytes ?? (await sizeNow(access, volume, located, range?.requiredBytes));
  const requiredBytes = range?.requiredBytes ?? currentBytes;
  const wanted = { requiredBytes, limitBytes: range?.limitBytes };
  const sizeBytes = chooseSize(wanted, currentBytes, sizeMultiple(access.traits, volume.encryption?.type));
  if (content.type === 'mount' && sizeBytes > currentBytes) {
    const devicePath = await devicePathIn(access.queue, located.mounted);
    await requireGrowable(access.queue, devicePath, { fsType: content.fsType, id: volumeId, wantedBytes: sizeBytes });
    // Before its device has grown, too.
    await requireThawed(access.queue, `volume ${volumeId}`, {
      ...filesystemIn(located.mounted.mount),
      devicePath,
      directory: located.handle.descriptor,
    });
  }
  const grownBytes = await access.grow(sizeBytes);
  if (content.type === 'mount') await growFilesystem(access, located, content.fsType);
  return grownBytes;
}

/** The size of a volume that no record tells. */
async function sizeNow(
  { queue }: VolumeAccess,
  { content, handle }: VolumeOnNode,
  { mounted }: Located,
  requiredBytes: bigint | undefined,
): Promise<bigint> {
  if (content.type !== 'directory') return await deviceSizeBytes(queue, await devicePathIn(queue, mounted));
  if (requiredBytes !== undefined) return requiredBytes;
  throw new InvalidArgument(`volume ${handle} is a directory of unknown size: name a size (required_bytes).`);
}

async function growFilesystem(volume: VolumeAccess, located: Located, fsType: FilesystemType): Promise<void> {
  const { handle: id, queue } = volume;
  // Through a new writable mount: there may be no other.
  await using directory = cloneMount(queue, located.handle.descriptor, { readonly: false });
  const devicePath = await devicePathIn(queue, located.mounted);
  const deviceBytes = await deviceSizeBytes(queue, devicePath);
  // The device may be larger already: the controller has grown it.
  await requireGrowable(queue, devicePath, { fsType, id, wantedBytes: deviceBytes });
  const settle = (mounted: Descriptor) => volume.settleFilesystem(mounted);
  try {
    const { hidesFreeze } = filesystemIn(located.mounted.mount);
    const growth = { ...{ fsType, directory, devicePath, deviceBytes, settle }, name: `volume ${id}`, hidesFreeze };
    await step('expand/filesystem', () => growMounted(queue, growth));
  } catch (error) {
    if (isErrno(error, 'EPERM')) {
      throw growsLater(id, `mounted ${fsType} grows only if the driver has CAP_SYS_RESOURCE`);
    }
    if (isErrno(error, 'EROFS')) throw growsLater(id, 'its filesystem is read-only');
    throw error;
  }
}

/** The next stage grows a filesystem that is smaller than its device. */
function growsLater(id: VolumeHandle, reason: string): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${id} has grown, but not yet its filesystem: ${reason}. It grows when its pods are started again.`,
  );
}
