import { growUnmountedExt4 } from '../../command/resize.ts';
import { CommandError } from '../../command/run.ts';
import {
  canGrow,
  filesystemSize,
  hasErrors,
  superblockRange,
  whyOfFixedSize,
  whyTooLarge,
} from '../../filesystems/superblock.ts';
import { probeContent } from '../../kernel/block/blkid.ts';
import { refusesWrites, sizeOfDevice } from '../../kernel/block/block.ts';
import { diskFaultOf } from '../../kernel/block/disk-fault.ts';
import { type Descriptor, openReadOnly } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno, KernelError } from '../../kernel/call/errno.ts';
import { readAtMost } from '../../kernel/file/file.ts';
import { FilesystemFrozen } from '../../kernel/mount/freeze.ts';
import { growMounted } from '../../kernel/mount/grow.ts';
import { mountDetached, mountFilesystem, placeMount } from '../../kernel/mount/mount.ts';
import { isMountedAnywhere } from '../../kernel/mount/mounted-device.ts';
import { attachDeviceOf } from '../../pool/attached-device.ts';
import type { VolumeAccess } from '../../pool/node-side.ts';
import type { AttachedDevice } from '../../pool/pool.ts';
import {
  DataLoss,
  FailedPrecondition,
  type HoldfastError,
  InternalError,
  InvalidArgument,
  Unavailable,
} from '../../volume/errors.ts';
import type { FilesystemType } from '../../volume/filesystem.ts';
import type { VolumeHandle } from '../../volume/handle.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { Secrets } from '../../volume/secrets.ts';
import { step } from '../../volume/step.ts';
import { detachUnmounted } from '../detach.ts';
import { type FilesystemParameter, refusedOption, type WantedAttributes } from '../mount-options.ts';
import { busyDevice, mountedOtherwise } from '../path/busy.ts';
import { writeProtected } from './write-protected.ts';

/** A filesystem volume, and how to mount it. */
export interface VolumeMount {
  readonly fsType: FilesystemType;
  readonly attributes: WantedAttributes;
  readonly parameters: readonly FilesystemParameter[];
  /** A thick volume has all its blocks. */
  readonly provisioning: VolumeRecord['provisioning'];
  readonly target: Descriptor;
  readonly secrets: Secrets;
  /** Runs before the mount, with the volume attached. */
  readonly beforehand: () => Promise<void>;
  /** It was last mounted with others: if it is mounted still, it keeps those, whatever this mount asks for. */
  readonly hasNewParameters: boolean;
  /** No other node ever had the volume. */
  readonly isFirstUse?: boolean;
}

/** The outcome of a mount. */
export interface MountOutcome {
  /** The reason that the filesystem is still smaller than its volume; undefined: it is not. */
  readonly notGrown: string | undefined;
}

/**
 * Attaches the volume and mounts its filesystem. Nothing is ever formatted here: every volume was formatted when it was
 * created, or by its kind at its first use, so a filesystem that cannot be mounted is damaged or foreign (ST09). A damaged one is repaired, once, where
 * nothing can be lost by that; otherwise it is reported. One that is smaller than its device grows before a pod sees it.
 */
export async function mountVolume(volume: VolumeAccess, mount: VolumeMount): Promise<MountOutcome> {
  try {
    return await tryToMount(volume, mount);
  } catch (error) {
    if (!(error instanceof DamagedFilesystem)) throw error;
    await volume.repair(mount.fsType, mount.secrets);
    return await tryToMount(volume, { ...mount, beforehand: async () => undefined });
  }
}

/** It says so itself, or the kernel does. */
class DamagedFilesystem extends DataLoss {}

/** @throws DamagedFilesystem */
async function tryToMount(volume: VolumeAccess, mount: VolumeMount): Promise<MountOutcome> {
  const { attributes, beforehand, fsType, isFirstUse = false, secrets } = mount;
  const { handle: volumeId, queue } = volume;
  const [attached, prepared] = await Promise.allSettled([
    attachDeviceOf(volume, { persistent: false, secrets, isFirstUse, isReadonly: attributes.readonly }),
    beforehand(),
  ]);
  if (attached.status === 'rejected') throw attached.reason;
  const attachment = attached.value;
  try {
    if (prepared.status === 'rejected') throw prepared.reason;
    if (mount.hasNewParameters && isMountedAnywhere(fsType, attachment.devicePath)) {
      throw await mountedOtherwise(volumeId, attachment);
    }
    const isProtected = refusesWrites(attachment.descriptor);
    if (isProtected && attributes.readonly !== true) throw writeProtected(volumeId);
    const superblock = await readAtMost(queue, attachment.descriptor, superblockRange[fsType]);
    if (hasErrors(fsType, superblock)) throw new DamagedFilesystem(`volume ${volumeId}: its ${fsType} has errors.`);
    const size = filesystemSize(fsType, superblock);
    // Not a superblock: the mount fails, and says why better.
    const deviceBytes = sizeOfDevice(attachment.descriptor);
    const isTooSmall = size !== undefined && canGrow(size, deviceBytes);
    const fixed = isTooSmall
      ? ((isProtected ? protectedReason : undefined) ??
        whyOfFixedSize(fsType, superblock) ??
        whyTooLarge(fsType, superblock, deviceBytes))
      : undefined;
    const outcome =
      isTooSmall && fixed === undefined
        ? await growAndMount(volume, mount, attachment)
        : await mountAsItIs(volume, isProtected ? asReadOnly(mount) : mount, attachment, fixed);
    // The device lives as long as the mount now, whenever this is done.
    void attachment.release();
    return outcome;
  } catch (error) {
    const explained = await explainMountFailure(
      error,
      queue,
      { ...mount, volumeId, isProvided: volume.isProvided },
      attachment,
    );
    await attachment.release();
    // If this fails it is done by the next try, or when the pool is opened next.
    await detachUnmounted(queue, volume).catch(() => undefined);
    throw explained;
  }
}

async function mountAsItIs(
  { queue }: VolumeAccess,
  mount: VolumeMount,
  { devicePath }: AttachedDevice,
  notGrown?: string,
): Promise<MountOutcome> {
  const parameters = parametersOf(mount);
  await step('stage/mount', () => mountFilesystem(queue, { ...mount, parameters, source: devicePath }));
  return { notGrown };
}

/** The filesystem itself is read-only, too: the kernel mounts it in no other way on a device that takes no writes. */
function asReadOnly(mount: VolumeMount): VolumeMount {
  return { ...mount, parameters: [...mount.parameters, ['ro']] };
}

/**
 * ext4 makes its inode tables zeros in the background, and has the device punch holes for that: a thick volume would lose
 * blocks. Its image reads as zeros already. What the caller asks for comes later, and wins.
 */
function parametersOf({ fsType, parameters, provisioning }: VolumeMount): readonly FilesystemParameter[] {
  return fsType === 'ext4' && provisioning === 'thick' ? [['noinit_itable'], ...parameters] : parameters;
}

/** Grows the filesystem to the size of its device, which an expansion left behind, or a larger clone (PB19). */
async function growAndMount(volume: VolumeAccess, mount: VolumeMount, device: AttachedDevice): Promise<MountOutcome> {
  const { attributes, fsType, target } = mount;
  const { handle, queue } = volume;
  if (fsType === 'ext4' && (await growUnmounted(queue, handle, device))) return mountAsItIs(volume, mount, device);
  // In a place that no pod sees, and writable, as the requested mount may not be.
  const hidden = { ...mount, parameters: parametersOf(mount), attributes: {}, source: device.devicePath };
  await using draft = await mountDetached(queue, hidden);
  const staged = { fsType, directory: draft, devicePath: device.devicePath, hidesFreeze: false };
  const notGrown = await growUnlessFrozen(volume, staged).catch((error) => {
    // It may be mounted elsewhere with the size that it has, and so it can be here.
    if (fsType === 'ext4' && isErrno(error, 'EPERM')) return 'its ext4 is mounted elsewhere, too (see holdfast who)';
    throw error;
  });
  await step('stage/mount', () => placeMount(queue, draft, { target, attributes }));
  return { notGrown };
}

const protectedReason = 'its device is write-protected';

/** The mounted filesystem of a volume. */
export interface StagedFilesystem {
  readonly fsType: FilesystemType;
  readonly directory: Descriptor;
  readonly devicePath: string;
  /** True if a freeze leaves no trace there (`MountedFilesystem`). */
  readonly hidesFreeze: boolean;
}

/**
 * Grows a mounted filesystem, of which this is a directory, to the size of its device.
 * @returns the reason if it is frozen or write-protected and did not grow: it can be mounted, and grows later
 */
export async function growUnlessFrozen(volume: VolumeAccess, staged: StagedFilesystem): Promise<string | undefined> {
  const { handle, queue } = volume;
  await using device = await openReadOnly(queue, staged.devicePath);
  if (refusesWrites(device)) return protectedReason;
  const deviceBytes = sizeOfDevice(device);
  const settle = (mounted: Descriptor) => volume.settleFilesystem(mounted);
  const growth = { ...staged, deviceBytes, settle, name: `volume ${handle}` };
  try {
    await step('stage/grow', () => growMounted(queue, growth));
    return undefined;
  } catch (error) {
    if (error instanceof FilesystemFrozen) return error.message;
    throw error;
  }
}

/** @returns whether it has grown; false: it is mounted somewhere, and can only grow there */
async function growUnmounted(queue: DiskQueue, volumeId: VolumeHandle, device: AttachedDevice): Promise<boolean> {
  try {
    await step('stage/grow', () => queue.watch(() => growUnmountedExt4(device.devicePath)));
    return true;
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    if (!/ is (in use|mounted)\./.test(error.stdout)) {
      throw new DataLoss(`volume ${volumeId}: its ext4 cannot be grown, run e2fsck on it: ${error.message}`);
    }
    if (!isMountedAnywhere('ext4', device.devicePath)) throw await busyDevice(volumeId, device);
    return false;
  }
}

/** A mount that the kernel refused. */
type RefusedMount = Pick<VolumeMount, 'fsType' | 'parameters'> &
  Pick<VolumeAccess, 'isProvided'> & { readonly volumeId: VolumeHandle };

/** The meaning of the kernel's refusal: a wrong flag, another filesystem than recorded, none, or a damaged one. */
export async function explainMountFailure(
  error: unknown,
  queue: DiskQueue,
  { fsType, isProvided, parameters, volumeId }: RefusedMount,
  device: AttachedDevice,
): Promise<unknown> {
  if (!(error instanceof KernelError) || !error.syscall.startsWith('fsconfig')) return error;
  if (!error.syscall.includes('CMD_CREATE')) {
    return refusedOption(error, { volumeId, fsType, parameters });
  }
  if (error.code === 'EBUSY') return await busyDevice(volumeId, device);
  const content = await probeContent(queue, device.devicePath);
  const what = content.kind === 'filesystem' || content.kind === 'other' ? content.type : content.kind;
  if (what === 'crypto_LUKS' && isProvided === true) {
    return new FailedPrecondition(
      `volume ${volumeId}: its device is encrypted, and its PersistentVolume does not say so: add encryption: luks2 to volumeAttributes, and nodeStageSecretRef with the key.`,
    );
  }
  if (what !== fsType && isProvided === true) {
    return new FailedPrecondition(
      `volume ${volumeId} must have ${fsType}, but its device shows: ${what}. It is not formatted here: run mkfs.${fsType} on it, or correct fsType of the PersistentVolume.`,
    );
  }
  if (what !== fsType) {
    return new DataLoss(
      `volume ${volumeId} was formatted with ${fsType}, but its device now shows: ${what}. It is neither mounted nor formatted; find the program that wrote to it.`,
    );
  }
  return refusal(error, volumeId, fsType, parameters.length > 0);
}

function refusal(error: KernelError, volumeId: VolumeHandle, fsType: string, hasParameters: boolean): HoldfastError {
  const words = error.detail === undefined ? error.code : `${error.code}: ${error.detail.slice(0, 80)}`;
  if (hasParameters && error.code === 'EINVAL') {
    return new InvalidArgument(`volume ${volumeId}: ${fsType} cannot be mounted with these mount_flags (${words}).`);
  }
  const message = `volume ${volumeId}: its ${fsType} cannot be mounted (${words}). It is left as it is; see the node's kernel log.`;
  if (['EUCLEAN', 'EBADMSG', 'EINVAL'].includes(error.code)) return new DamagedFilesystem(message);
  if (error.code === 'EIO') return new DataLoss(message);
  return diskFaultOf(error) === undefined ? new InternalError(message) : new Unavailable(message);
}
