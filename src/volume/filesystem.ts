/** The filesystems that a volume can hold, and their differences, as data. */

const mebibyte = 1n << 20n;

export const filesystemTypes = ['ext4', 'xfs', 'btrfs'] as const;
export type FilesystemType = (typeof filesystemTypes)[number];

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

export function parseFilesystemType(text: string): FilesystemType | undefined {
  return filesystemTypes.find((type) => type === text);
}
