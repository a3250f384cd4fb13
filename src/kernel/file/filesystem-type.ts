/** f_type of statfs(2), of filesystems that are treated in a special way. */
export const filesystemType = {
  bcachefs: 0xca451a4en,
  btrfs: 0x9123683en,
  /** ext2 and ext3 as well. */
  ext4: 0xef53n,
  f2fs: 0xf2f52010n,
  tmpfs: 0x01021994n,
  xfs: 0x58465342n,
} as const;
