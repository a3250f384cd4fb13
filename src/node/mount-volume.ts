import { growUnmountedExt4 } from '../command/resize.ts';
import { CommandError } from '../command/run.ts';
import { probeContent } from '../kernel/blkid.ts';
import { deviceSizeBytes, sizeOfDevice } from '../kernel/block.ts';
import type { Descriptor } from '../kernel/descriptor.ts';
import { diskFaultOf } from '../kernel/disk-fault.ts';
import { KernelError } from '../kernel/errno.ts';
import { readAt } from '../kernel/file.ts';
import { growMounted } from '../kernel/grow.ts';
import type { Lane } from '../kernel/lane.ts';
import { mountFilesystem } from '../kernel/mount.ts';
import type { Pool } from '../pool/pool.ts';
import {
  Aborted,
  DataLoss,
  type HoldfastError,
  InternalError,
  InvalidArgument,
  Unavailable,
} from '../volume/errors.ts';
import type { FilesystemType } from '../volume/filesystem.ts';
import type { VolumeId } from '../volume/id.ts';
import { step } from '../volume/step.ts';
import type { AttributeState, FilesystemParameter } from './mount-options.ts';
import { canGrow, filesystemSize, hasErrors, superblockRange } from './superblock.ts';

/** A filesystem volume that is to be mounted. */
export interface VolumeMount {
  readonly volumeId: VolumeId;
  readonly fsType: FilesystemType;
  readonly attributes: AttributeState;
  readonly parameters: readonly FilesystemParameter[];
  readonly target: Descriptor;
  /** What must be done before anything is mounted; the volume is attached meanwhile. */
  readonly beforehand: () => Promise<void>;
}

/**
 * Attaches the volume and mounts its filesystem. Nothing is ever formatted here: every volume was formatted when it was
 * created, so what cannot be mounted is damaged or foreign (ST09). What is damaged is repaired, once, where nothing can be
 * lost by that; otherwise it is reported.
 * @returns whether the filesystem is smaller than its device and grows only now that it is mounted
 */
export async function mountVolume(pool: Pool, mount: VolumeMount): Promise<boolean> {
  try {
    return await tryToMount(pool, mount);
  } catch (error) {
    if (!(error instanceof DamagedFilesystem)) throw error;
    await pool.repair(mount.volumeId, mount.fsType);
    return await tryToMount(pool, { ...mount, beforehand: async () => undefined });
  }
}

/** It says so itself, or the kernel does. */
class DamagedFilesystem extends DataLoss {}

/** @throws DamagedFilesystem */
async function tryToMount(pool: Pool, mount: VolumeMount): Promise<boolean> {
  const { attributes, beforehand, fsType, parameters, target, volumeId } = mount;
  const { lane } = pool;
  const [attached, prepared] = await Promise.allSettled([pool.attach(volumeId, { lasting: false }), beforehand()]);
  if (attached.status === 'rejected') throw attached.reason;
  const attachment = attached.value;
  const { devicePath } = attachment;
  try {
    if (prepared.status === 'rejected') throw prepared.reason;
    const superblock = await readAt(lane, attachment.descriptor, superblockRange[fsType]);
    if (hasErrors(fsType, superblock)) throw new DamagedFilesystem(`volume ${volumeId}: its ${fsType} has errors.`);
    const size = filesystemSize(fsType, superblock);
    // Not a superblock: the mount fails, and says why better.
    const isTooSmall = size !== undefined && canGrow(size, sizeOfDevice(attachment.descriptor));
    if (isTooSmall && fsType === 'ext4') await growBeforeMount(lane, volumeId, devicePath);
    await step('stage/mount', () =>
      mountFilesystem(lane, { fsType, source: devicePath, parameters, attributes, target }),
    ).catch(async (error) => {
      throw await explainMountFailure(error, lane, mount, devicePath);
    });
    // The device lives as long as the mount now, whenever this is done.
    void attachment.release();
    return isTooSmall && fsType !== 'ext4';
  } catch (error) {
    await attachment.release();
    throw error;
  }
}

/** Grows a filesystem with this directory to the size of its device, which an expansion left behind (PB19). */
export async function growStaged(
  pool: Pool,
  fsType: FilesystemType,
  directory: Descriptor,
  devicePath: string,
): Promise<void> {
  const deviceBytes = await deviceSizeBytes(pool.lane, devicePath);
  await step('stage/grow', () => growMounted(pool.lane, { fsType, directory, devicePath, deviceBytes }));
}

async function growBeforeMount(lane: Lane, volumeId: VolumeId, devicePath: string): Promise<void> {
  try {
    await step('stage/grow', () => lane.watch(() => growUnmountedExt4(devicePath)));
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    // e2fsck and resize2fs outlive a driver that is killed, and are left to finish: cut short they could do harm.
    if (/ is (in use|mounted)\./.test(error.stdout)) {
      throw new Aborted(`volume ${volumeId}: its ext4 is still being checked or grown by an earlier call; try again.`);
    }
    throw new DataLoss(`volume ${volumeId}: its ext4 cannot be grown, run e2fsck on it: ${error.message}`);
  }
}

/** What the kernel's refusal means: a wrong flag, another filesystem than recorded, none, or a damaged one. */
export async function explainMountFailure(
  error: unknown,
  lane: Lane,
  { fsType, parameters, volumeId }: Pick<VolumeMount, 'fsType' | 'parameters' | 'volumeId'>,
  devicePath: string,
): Promise<unknown> {
  if (!(error instanceof KernelError) || !error.syscall.startsWith('fsconfig')) return error;
  if (!error.syscall.includes('CMD_CREATE')) {
    return new InvalidArgument(
      `volume ${volumeId}: mount_flags has an option that ${fsType} does not take (${error.code}): correct mountOptions.`,
    );
  }
  const content = await probeContent(lane, devicePath);
  const what = content.kind === 'filesystem' || content.kind === 'other' ? content.type : content.kind;
  if (what !== fsType) {
    return new DataLoss(
      `volume ${volumeId} was formatted with ${fsType}, but its device now shows: ${what}. It is neither mounted nor formatted; find out who wrote to it.`,
    );
  }
  return refusal(error, volumeId, fsType, parameters.length > 0);
}

function refusal(error: KernelError, volumeId: VolumeId, fsType: string, hasParameters: boolean): HoldfastError {
  const words = error.detail === undefined ? error.code : `${error.code}: ${error.detail.slice(0, 80)}`;
  if (hasParameters && error.code === 'EINVAL') {
    return new InvalidArgument(`volume ${volumeId}: ${fsType} cannot be mounted with these mount_flags (${words}).`);
  }
  const message = `volume ${volumeId}: its ${fsType} cannot be mounted (${words}). It is left as it is; see the node's kernel log.`;
  if (['EUCLEAN', 'EBADMSG', 'EINVAL'].includes(error.code)) return new DamagedFilesystem(message);
  if (error.code === 'EIO') return new DataLoss(message);
  return diskFaultOf(error) === undefined ? new InternalError(message) : new Unavailable(message);
}
