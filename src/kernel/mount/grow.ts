import { statfs } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { FilesystemType } from '../../volume/filesystem.ts';
import { type Descriptor, type Openable, openReadOnly } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { KernelError } from '../call/errno.ts';
import { type IoctlRequest, ioctl, ioctlNow } from '../call/ioctl.ts';
import { readAtMost } from '../file/file.ts';
import { FilesystemFrozen, requireThawed } from './freeze.ts';

export interface Growth {
  readonly fsType: FilesystemType;
  /** A directory on the mounted filesystem. */
  readonly directory: Openable;
  readonly devicePath: string;
  readonly deviceBytes: bigint;
  /** The owner of the filesystem, for messages: `volume …`. */
  readonly name: string;
  /** True if a freeze leaves no trace there (`MountedFilesystem`). */
  readonly hidesFreeze?: boolean;
  /** Freezes the filesystem for a moment, which empties its log. */
  readonly settle: (directory: Descriptor) => Promise<void>;
}

const EXT4_IOC_RESIZE_FS: IoctlRequest = { name: 'EXT4_IOC_RESIZE_FS', number: 0x40086610 };
const XFS_IOC_FSGEOMETRY_V1: IoctlRequest = { name: 'XFS_IOC_FSGEOMETRY_V1', number: 0x80705864 };
const XFS_IOC_FSGROWFSDATA: IoctlRequest = { name: 'XFS_IOC_FSGROWFSDATA', number: 0x4010586e };
const BTRFS_IOC_DEV_INFO: IoctlRequest = { name: 'BTRFS_IOC_DEV_INFO', number: 0xd000941e };
const BTRFS_IOC_RESIZE: IoctlRequest = { name: 'BTRFS_IOC_RESIZE', number: 0x50009403 };

/**
 * Makes a mounted filesystem as large as its device, if it is not yet. Never makes it smaller.
 * @throws FilesystemFrozen if it must grow; btrfs does not show that it is frozen: if it has not grown after
 * `btrfsTimeoutMs`, it may be. It grows then once it is thawed, or with a later call
 * @throws KernelError EPERM for ext4 where CAP_SYS_RESOURCE is missing and the filesystem must grow; EINVAL for btrfs
 * on a device of less than 256 MiB
 */
export async function growMounted(queue: DiskQueue, growth: Growth): Promise<void> {
  await using directory = await openReadOnly(queue, growth.directory);
  switch (growth.fsType) {
    // Awaited here: the directory must stay open until then.
    case 'ext4':
      return await growExt4(queue, directory, growth);
    case 'xfs':
      return await growXfs(queue, directory, growth);
    case 'btrfs':
      return await growBtrfs(queue, directory, growth);
  }
}

async function growExt4(queue: DiskQueue, directory: Descriptor, growth: Growth): Promise<void> {
  const { devicePath, deviceBytes } = growth;
  const { bsize } = await queue.run(() => directory.during((path) => statfs(path, { bigint: true })));
  const blocks = deviceBytes / bsize;
  const argument = Buffer.alloc(8);
  argument.writeBigUInt64LE(blocks);
  // The kernel asks for the capability, and waits for a thaw, even if there is nothing to do.
  if (await isExt4AsLargeAs(queue, devicePath, blocks)) return;
  await requireThawed(queue, growth.name, { ...growth, directory });
  await ioctl(queue, directory, EXT4_IOC_RESIZE_FS, argument);
}

/** Reads the superblock (Documentation/filesystems/ext4/super.rst). A mounted filesystem has it in the same cache. */
async function isExt4AsLargeAs(queue: DiskQueue, devicePath: string, blocks: bigint): Promise<boolean> {
  await using device = await openReadOnly(queue, devicePath);
  const superblock = await readAtMost(queue, device, { offsetBytes: 1024, lengthBytes: 1024 });
  if (superblock.length < 1024) return false;
  const is64Bit = (superblock.readUInt32LE(0x60) & 0x80) !== 0;
  const high = is64Bit ? BigInt(superblock.readUInt32LE(0x150)) : 0n;
  const present = (high << 32n) | BigInt(superblock.readUInt32LE(0x4));
  const perGroup = BigInt(superblock.readUInt32LE(0x20));
  const missing = blocks - present;
  // mke2fs, resize2fs and the kernel all leave out a last group that is too small for its own tables.
  const isLastGroup = missing === (blocks - BigInt(superblock.readUInt32LE(0x14))) % perGroup;
  return missing <= 0n || (isLastGroup && missing < perGroup / 16n);
}

/** The smallest allocation group that XFS makes (XFS_MIN_AG_BLOCKS). */
const minimumXfsGroupBlocks = 64n;

/**
 * Before Linux 6.13, XFS checks its log against the size in the superblock on the disk. After a power cut it cannot
 * replay (EUCLEAN) log entries beyond that size, which may stay in the log for half a minute after it grew. A freeze
 * empties the log.
 */
async function growXfs(queue: DiskQueue, directory: Descriptor, growth: Growth): Promise<void> {
  const { deviceBytes, settle } = growth;
  // struct xfs_fsop_geom_v1; read from memory.
  const geometry = Buffer.alloc(112);
  ioctlNow(directory, XFS_IOC_FSGEOMETRY_V1, geometry);
  const groupBlocks = BigInt(geometry.readUInt32LE(8));
  const inodePercent = geometry.readUInt32LE(28);
  const present = geometry.readBigUInt64LE(32);
  let blocks = deviceBytes / BigInt(geometry.readUInt32LE(0));
  const lastGroup = blocks % groupBlocks;
  if (lastGroup < minimumXfsGroupBlocks) blocks -= lastGroup;
  // A smaller size is never requested: newer kernels would try to shrink.
  if (blocks <= present) return;
  await requireThawed(queue, growth.name, { ...growth, directory });
  // struct xfs_growfs_data
  const argument = Buffer.alloc(16);
  argument.writeBigUInt64LE(blocks, 0);
  argument.writeUInt32LE(inodePercent, 8);
  await ioctl(queue, directory, XFS_IOC_FSGROWFSDATA, argument);
  await settle(directory);
}

/** The smallest sector of btrfs: its size on a device is a multiple of the sector. */
const btrfsSectorBytes = 4096n;

/** More than a resize takes on a filesystem that is not frozen. */
const btrfsTimeoutMs = 5_000;
const placePauseMs = 50;

const growing = new WeakMap<DiskQueue, DiskQueue>();

/** One place in a sibling queue: a resize that waits there for a thaw, however long, delays no other call of the pool. */
function growingBeside(queue: DiskQueue): DiskQueue {
  const beside = growing.get(queue) ?? queue.beside('grow', 1);
  growing.set(queue, beside);
  return beside;
}

async function growBtrfs(queue: DiskQueue, directory: Descriptor, { deviceBytes, name }: Growth): Promise<void> {
  if (!mustBtrfsGrow(directory, deviceBytes)) return;
  const beside = growingBeside(queue);
  const deadlineMs = performance.now() + btrfsTimeoutMs;
  // A job that waits in the queue could not be taken back, and would hold the directory open.
  while (beside.running >= beside.places) {
    if (performance.now() > deadlineMs) {
      throw new FilesystemFrozen(
        `${name} cannot grow now: another btrfs of the pool is growing, and may be frozen (fsfreeze --unfreeze). It grows once that is over.`,
      );
    }
    await delay(placePauseMs);
  }
  // The directory stays open until the kernel's call has ended, also after the caller has left.
  const resized = resizeBtrfs(beside, directory).then(() => true);
  if (await Promise.race([resized, delay(btrfsTimeoutMs, false)])) return;
  throw new FilesystemFrozen(
    `${name} cannot grow now: its btrfs has not grown in ${btrfsTimeoutMs / 1000} s, and may be frozen (fsfreeze --unfreeze). It grows once that is over.`,
  );
}

function mustBtrfsGrow(directory: Descriptor, deviceBytes: bigint): boolean {
  // struct btrfs_ioctl_dev_info_args for device 1, which a plain 'max' resizes, too.
  const device = Buffer.alloc(4096);
  device.writeBigUInt64LE(1n, 0);
  ioctlNow(directory, BTRFS_IOC_DEV_INFO, device);
  const present = device.readBigUInt64LE(32);
  // The kernel refuses (EINVAL) to set any size below 256 MiB, even the present one.
  return deviceBytes - present >= btrfsSectorBytes;
}

async function resizeBtrfs(queue: DiskQueue, directory: Descriptor): Promise<void> {
  // struct btrfs_ioctl_vol_args: a descriptor that is not used here, and the text.
  const argument = Buffer.alloc(4096);
  argument.write('max', 8);
  const result = await ioctl(queue, directory, BTRFS_IOC_RESIZE, argument);
  // A positive answer means that a balance, a device removal or another resize is running (linux/btrfs.h).
  if (result > 0) {
    const detail = 'another operation on the whole filesystem is running';
    throw new KernelError({ syscall: 'ioctl(BTRFS_IOC_RESIZE)', errno: 16, path: directory.path, detail });
  }
}
