import type { FilesystemType } from '../volume/filesystem.ts';
import { formatBytes, maximumVolumeBytes } from '../volume/size.ts';

/*
 * Size of a filesystem, read from its superblock: in constant time, and without mounting it. Only fields that tell if it
 * has to grow are read here; the kernel and fsck tell if it is sound.
 */

/** Where a filesystem keeps its first superblock. */
export const superblockRange: Readonly<Record<FilesystemType, { offsetBytes: number; lengthBytes: number }>> = {
  ext4: { offsetBytes: 1024, lengthBytes: 1024 },
  xfs: { offsetBytes: 0, lengthBytes: 512 },
  btrfs: { offsetBytes: 65536, lengthBytes: 4096 },
};

export interface FilesystemSize {
  readonly sizeBytes: bigint;
  /** A device that is larger by less than this is of no use to the filesystem: its last group would be too small. */
  readonly smallestGrowthBytes: bigint;
}

/** Answers if the filesystem could be larger on this device. */
export function canGrow(size: FilesystemSize, deviceBytes: bigint): boolean {
  return deviceBytes - size.sizeBytes >= size.smallestGrowthBytes;
}

/**
 * The size of the filesystem whose superblock this is.
 * @param superblock the bytes of `superblockRange`
 * @returns undefined if it is no superblock of this type
 */
export function filesystemSize(fsType: FilesystemType, superblock: Uint8Array): FilesystemSize | undefined {
  if (superblock.byteLength < superblockRange[fsType].lengthBytes) return undefined;
  const view = new DataView(superblock.buffer, superblock.byteOffset, superblock.byteLength);
  return readers[fsType](view);
}

/**
 * Answers if the superblock records errors of the filesystem. XFS and btrfs refuse to be mounted then.
 * @param superblock the bytes of `superblockRange`
 */
export function hasErrors(fsType: FilesystemType, superblock: Uint8Array): boolean {
  const view = ext4View(fsType, superblock);
  return view !== undefined && (view.getUint16(0x3a, true) & ext4HasErrors) !== 0;
}

/**
 * Returns the reason why no program and no kernel grows this filesystem; undefined: it can grow.
 * @param superblock the bytes of `superblockRange`
 */
export function whyOfFixedSize(fsType: FilesystemType, superblock: Uint8Array): string | undefined {
  const view = ext4View(fsType, superblock);
  const hasBigalloc = view !== undefined && (view.getUint32(0x64, true) & ext4RoCompatBigalloc) !== 0;
  return hasBigalloc ? 'an ext4 that was made with bigalloc cannot grow' : undefined;
}

/**
 * Returns the reason why it cannot grow to that size; undefined: it can.
 * @param superblock the bytes of `superblockRange`
 */
export function whyTooLarge(fsType: FilesystemType, superblock: Uint8Array, wantedBytes: bigint): string | undefined {
  const view = ext4View(fsType, superblock);
  const largestBytes = view === undefined ? wantedBytes : largestExt4Bytes(view);
  if (wantedBytes <= largestBytes) return undefined;
  return `an ext4 that was made as small as this one grows to ${formatBytes(largestBytes)} at most`;
}

function ext4View(fsType: FilesystemType, superblock: Uint8Array): DataView | undefined {
  if (fsType !== 'ext4' || superblock.byteLength < superblockRange.ext4.lengthBytes) return undefined;
  const view = new DataView(superblock.buffer, superblock.byteOffset, superblock.byteLength);
  return view.getUint16(0x38, true) === ext4Magic ? view : undefined;
}

/**
 * Each group that has a copy of the superblock has one of all group descriptors, which has to fit into it. Where they take
 * more than three quarters of a group, resize2fs(8) and the kernel damage the filesystem.
 */
function largestExt4Bytes(view: DataView): bigint {
  // Each few groups describe themselves.
  if ((view.getUint32(0x60, true) & ext4IncompatMetaBg) !== 0) return maximumVolumeBytes;
  const is64bit = (view.getUint32(0x60, true) & ext4Incompat64bit) !== 0;
  const descriptorBytes = is64bit ? BigInt(view.getUint16(0xfe, true)) : 32n;
  const blockBytes = 1024n << BigInt(view.getUint32(0x18, true));
  const groupBlocks = BigInt(view.getUint32(0x20, true));
  if (descriptorBytes === 0n) return 0n;
  const groups = ((groupBlocks * 3n) / 4n) * (blockBytes / descriptorBytes);
  return groups * groupBlocks * blockBytes;
}

const readers: Readonly<Record<FilesystemType, (view: DataView) => FilesystemSize | undefined>> = {
  ext4: ext4Size,
  xfs: xfsSize,
  btrfs: btrfsSize,
};

const ext4Magic = 0xef53;
/** EXT4_ERROR_FS in s_state. */
const ext4HasErrors = 0x2;
const ext4IncompatMetaBg = 0x10;
const ext4Incompat64bit = 0x80;
const ext4RoCompatBigalloc = 0x200;
/** resize2fs(8) wants this many blocks for data in a last group, beside the group's own tables. */
const ext4SmallestGroupDataBlocks = 50n;

/** struct ext4_super_block, Documentation/filesystems/ext4/super.rst. Little-endian. */
function ext4Size(view: DataView): FilesystemSize | undefined {
  if (view.getUint16(0x38, true) !== ext4Magic) return undefined;
  const is64bit = (view.getUint32(0x60, true) & ext4Incompat64bit) !== 0;
  const blocks = BigInt(view.getUint32(0x04, true)) + (is64bit ? BigInt(view.getUint32(0x150, true)) << 32n : 0n);
  const blockBytes = 1024n << BigInt(view.getUint32(0x18, true));
  const firstBlock = BigInt(view.getUint32(0x14, true));
  const groupBlocks = BigInt(view.getUint32(0x20, true));
  if (groupBlocks === 0n) return undefined;
  const sizeBytes = blocks * blockBytes;
  const endsWithAGroup = (blocks - firstBlock) % groupBlocks === 0n;
  const smallestBlocks = endsWithAGroup ? ext4GroupTableBlocks(view, blockBytes) + ext4SmallestGroupDataBlocks : 1n;
  return { sizeBytes, smallestGrowthBytes: smallestBlocks * blockBytes };
}

/** Blocks that a new group keeps for itself, if it is one of those with a copy of the superblock: two bitmaps and its tables. */
function ext4GroupTableBlocks(view: DataView, blockBytes: bigint): bigint {
  const inodeTableBytes = BigInt(view.getUint32(0x28, true)) * BigInt(view.getUint16(0x58, true));
  const reservedDescriptorBlocks = BigInt(view.getUint16(0xce, true));
  const superblockAndDescriptors = 2n;
  return 2n + inodeTableBytes / blockBytes + superblockAndDescriptors + reservedDescriptorBlocks;
}

const xfsMagic = 0x58465342; // 'XFSB'
/** XFS_MIN_AG_BLOCKS of fs/xfs/libxfs/xfs_fs.h: the kernel leaves out a last allocation group below it. */
const xfsSmallestGroupBlocks = 64n;

/** struct xfs_dsb of fs/xfs/libxfs/xfs_format.h. Big-endian. */
function xfsSize(view: DataView): FilesystemSize | undefined {
  if (view.getUint32(0) !== xfsMagic) return undefined;
  const blockBytes = BigInt(view.getUint32(4));
  const blocks = view.getBigUint64(8);
  const groupBlocks = BigInt(view.getUint32(84));
  if (groupBlocks === 0n) return undefined;
  const smallestBlocks = blocks % groupBlocks === 0n ? xfsSmallestGroupBlocks : 1n;
  return { sizeBytes: blocks * blockBytes, smallestGrowthBytes: smallestBlocks * blockBytes };
}

const btrfsMagic = 0x4d5f53665248425fn; // '_BHRfS_M', little-endian

/** struct btrfs_super_block of include/uapi/linux/btrfs_tree.h. Little-endian; the device's size is in its dev_item. */
function btrfsSize(view: DataView): FilesystemSize | undefined {
  if (view.getBigUint64(0x40, true) !== btrfsMagic) return undefined;
  const sectorBytes = BigInt(view.getUint32(0x90, true));
  return { sizeBytes: view.getBigUint64(0xd1, true), smallestGrowthBytes: sectorBytes };
}
