import { deviceSizeBytes } from '../kernel/block/block.ts';
import { openReadOnly } from '../kernel/call/descriptor.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { isErrno } from '../kernel/call/errno.ts';
import { readAtMost } from '../kernel/file/file.ts';
import { growMounted } from '../kernel/mount/grow.ts';
import { cloneMount } from '../kernel/mount/mount.ts';
import { sizeMultiple } from '../pool/pool.ts';
import { excess, type VolumeCapability } from '../volume/capability.ts';
import { FailedPrecondition, InvalidArgument } from '../volume/errors.ts';
import type { FilesystemType } from '../volume/filesystem.ts';
import type { VolumeId } from '../volume/id.ts';
import { type CapacityRange, chooseSize } from '../volume/size.ts';
import { step } from '../volume/step.ts';
import type { NodeContext } from './context.ts';
import { superblockRange, whyOfFixedSize } from './mount/superblock.ts';
import { type Located, locate, requireVolumePath } from './path/locate.ts';

export interface ExpandRequest {
  readonly volumeId: VolumeId;
  readonly path: string;
  readonly range: CapacityRange | undefined;
  readonly capability: VolumeCapability | undefined;
}

/**
 * What NodeExpandVolume does: the volume, its device and its filesystem grow, as far as each is not large enough yet.
 * @returns the size that the volume has then
 */
export async function expandVolume(context: NodeContext, request: ExpandRequest): Promise<bigint> {
  const { capability, path, range, volumeId } = request;
  const { pool, record } = await context.pools.require(volumeId);
  const reason = capability === undefined ? undefined : excess(record, capability);
  if (reason !== undefined) throw new InvalidArgument(`volume ${volumeId}: ${reason}.`);
  requireVolumePath(context, path, volumeId);
  using located = await locate(context, path, volumeId);
  // Without a size: as large as the device is (NE06). Never smaller than it is now.
  const requiredBytes = range?.requiredBytes ?? record.sizeBytes;
  const wanted = { requiredBytes, limitBytes: range?.limitBytes };
  const sizeBytes = chooseSize(wanted, record.sizeBytes, sizeMultiple(pool.traits, record.encryption?.type));
  if (record.content.type === 'mount' && sizeBytes > record.sizeBytes) {
    await requireGrowable(pool.queue, located, record.content.fsType, volumeId);
  }
  const grown = await pool.grow(volumeId, sizeBytes);
  if (record.content.type === 'mount') await growFilesystem(pool.queue, located, record.content.fsType, volumeId);
  return grown.sizeBytes;
}

/** @throws FailedPrecondition (NE08) before anything has grown */
async function requireGrowable(
  queue: DiskQueue,
  located: Located,
  fsType: FilesystemType,
  id: VolumeId,
): Promise<void> {
  await using device = await openReadOnly(queue, located.mounted.mount.source);
  const reason = whyOfFixedSize(fsType, await readAtMost(queue, device, superblockRange[fsType]));
  if (reason !== undefined)
    throw new FailedPrecondition(`volume ${id} keeps its size: ${reason}. Copy its data to another.`);
}

async function growFilesystem(queue: DiskQueue, located: Located, fsType: FilesystemType, id: VolumeId): Promise<void> {
  // Through a mount of our own that may write: there may be no other.
  await using directory = cloneMount(queue, located.handle.descriptor, { readonly: false });
  const devicePath = located.mounted.mount.source;
  const deviceBytes = await deviceSizeBytes(queue, devicePath);
  try {
    await step('expand/filesystem', () => growMounted(queue, { fsType, directory, devicePath, deviceBytes }));
  } catch (error) {
    await requireGrowable(queue, located, fsType, id);
    if (isErrno(error, 'EPERM')) {
      throw growsLater(id, `mounted ${fsType} grows only if the driver has CAP_SYS_RESOURCE`);
    }
    if (isErrno(error, 'EROFS')) throw growsLater(id, 'its filesystem is read-only');
    throw error;
  }
}

/** The stage that comes next grows what is smaller than its device. */
function growsLater(id: VolumeId, reason: string): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${id} has grown, but not yet its filesystem: ${reason}. It grows when its pods are started again.`,
  );
}
