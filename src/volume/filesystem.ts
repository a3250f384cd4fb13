/** The filesystems that a volume can hold, and their differences, as data. */

const mebibyte = 1n << 20n;

export const filesystemTypes = ['ext4', 'xfs', 'btrfs'] as const;
export type FilesystemType = (typeof filesystemTypes)[number];

/** Names that a server's filesystem has in a request: such a volume is a directory, and nothing is formatted. */
const servedTypes = ['nfs', 'nfs4'] as const;
export type ServedType = (typeof servedTypes)[number];

export interface FilesystemTraits {
  /**
   * The smallest device that mkfs accepts with default options and that can be grown later (btrfs resizes only to 256
   * MiB and more). A smaller request is rounded up to it (CV09).
   */
  readonly minimumBytes: bigint;
  /** All three grow while mounted; ext4's ioctl needs a capability that a container may lack. */
  readonly mountedGrowthNeeds: 'nothing' | 'CAP_SYS_RESOURCE';
}

export const filesystemTraits: Readonly<Record<FilesystemType, FilesystemTraits>> = {
  ext4: { minimumBytes: 16n * mebibyte, mountedGrowthNeeds: 'CAP_SYS_RESOURCE' },
  xfs: { minimumBytes: 300n * mebibyte, mountedGrowthNeeds: 'nothing' },
  btrfs: { minimumBytes: 256n * mebibyte, mountedGrowthNeeds: 'nothing' },
};

export function parseServedType(text: string): ServedType | undefined {
  return servedTypes.find((type) => type === text);
}

export function isServed(type: FilesystemType | ServedType | undefined): type is ServedType {
  return type !== undefined && parseServedType(type) !== undefined;
}

export function parseFilesystemType(text: string): FilesystemType | undefined {
  return filesystemTypes.find((type) => type === text);
}
