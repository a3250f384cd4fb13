import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { type IoctlRequest, ioctl } from '../call/ioctl.ts';

/** xfs_fs.h: XFS_IOC_FSGEOMETRY, its result, and the flags in that. */
const XFS_IOC_FSGEOMETRY: IoctlRequest = { name: 'XFS_IOC_FSGEOMETRY', number: 0x8100587e };
const geometryBytes = 256;
const at = {
  blockBytes: 0,
  groupBlocks: 8,
  groupCount: 12,
  logBlocks: 16,
  inodeBytes: 24,
  realtimeBlocks: 40,
  logStart: 56,
  flags: 92,
};
const XFS_FSOP_GEOM_FLAGS_FINOBT = 1 << 18;
const XFS_FSOP_GEOM_FLAGS_RMAPBT = 1 << 19;
const XFS_FSOP_GEOM_FLAGS_REFLINK = 1 << 20;

const XFS_IOC_GET_RESBLKS: IoctlRequest = { name: 'XFS_IOC_GET_RESBLKS', number: 0x80105873 };

/** The geometry of a mounted XFS, and the features that add trees to it. */
export interface MountedXfs {
  readonly blockBytes: number;
  readonly inodeBytes: number;
  readonly groupBlocks: number;
  readonly groupCount: number;
  /** 0: the log lies on another device. */
  readonly logBlocks: number;
  /** 0: all content lies on the device of the filesystem. */
  readonly realtimeBlocks: bigint;
  readonly hasFreeInodes: boolean;
  readonly hasOwners: boolean;
  readonly hasSharing: boolean;
}

/** @param directory on the filesystem, which is an XFS */
export async function readXfs(queue: DiskQueue, directory: Descriptor): Promise<MountedXfs> {
  const geometry = Buffer.alloc(geometryBytes);
  await ioctl(queue, directory, XFS_IOC_FSGEOMETRY, geometry);
  const flags = geometry.readUInt32LE(at.flags);
  return {
    blockBytes: geometry.readUInt32LE(at.blockBytes),
    inodeBytes: geometry.readUInt32LE(at.inodeBytes),
    groupBlocks: geometry.readUInt32LE(at.groupBlocks),
    groupCount: geometry.readUInt32LE(at.groupCount),
    logBlocks: geometry.readBigUInt64LE(at.logStart) === 0n ? 0 : geometry.readUInt32LE(at.logBlocks),
    realtimeBlocks: geometry.readBigUInt64LE(at.realtimeBlocks),
    hasFreeInodes: (flags & XFS_FSOP_GEOM_FLAGS_FINOBT) !== 0,
    hasOwners: (flags & XFS_FSOP_GEOM_FLAGS_RMAPBT) !== 0,
    hasSharing: (flags & XFS_FSOP_GEOM_FLAGS_REFLINK) !== 0,
  };
}

/** The number of blocks that it reserves for a full disk, and has not used yet. */
export async function readXfsSpareBlocks(queue: DiskQueue, directory: Descriptor): Promise<bigint> {
  // struct xfs_fsop_resblks: all of them, and those that are left.
  const spare = Buffer.alloc(16);
  await ioctl(queue, directory, XFS_IOC_GET_RESBLKS, spare);
  return spare.readBigUInt64LE(8);
}
