import { btrfsChecksum } from './btrfs-checksum.ts';

/** struct btrfs_super_block (linux/btrfs_tree.h): one, and copies of it where the device reaches so far. */
export const superblockBytes = 4096;
export const superblockOffsets = [64n << 10n, 64n << 20n, 256n << 30n] as const;

const magic = Buffer.from('_BHRfS_M');
const uuidBytes = 16;
const checksumBytes = 32;
/** The UUID in the tree blocks is not the one that the filesystem is known by, but `metadata_uuid`. Linux 5.0. */
const INCOMPAT_METADATA_UUID = 1n << 10n;

const at = {
  fsid: 32,
  bytenr: 48,
  magic: 64,
  logRoot: 96,
  incompat: 188,
  checksumType: 196,
  metadataUuid: 571,
} as const;

/** Answers if the block is a superblock, for this place, and undamaged. */
export function isSuperblock(block: Buffer, offsetBytes: bigint): boolean {
  if (block.length < superblockBytes || !block.subarray(at.magic, at.magic + magic.length).equals(magic)) return false;
  const checksum = checksumOf(block);
  return (
    checksum !== undefined &&
    block.subarray(0, checksum.length).equals(checksum) &&
    block.readBigUInt64LE(at.bytenr) === offsetBytes
  );
}

/** Answers if the data that was fsynced last is still in a log, to be replayed at the next mount. */
export function hasLog(block: Buffer): boolean {
  return block.readBigUInt64LE(at.logRoot) !== 0n;
}

/**
 * The superblock of the same filesystem under another UUID. Nothing else of the filesystem changes, not even its
 * generation: its log, which belongs to one generation, stays as good as it was.
 */
export function withUuid(block: Buffer, uuid: Buffer): Buffer {
  const changed = Buffer.from(block);
  const incompat = block.readBigUInt64LE(at.incompat);
  if ((incompat & INCOMPAT_METADATA_UUID) === 0n) {
    block.copy(changed, at.metadataUuid, at.fsid, at.fsid + uuidBytes);
    changed.writeBigUInt64LE(incompat | INCOMPAT_METADATA_UUID, at.incompat);
  }
  uuid.copy(changed, at.fsid, 0, uuidBytes);
  checksumOf(changed)?.copy(changed);
  return changed;
}

function checksumOf(block: Buffer): Buffer | undefined {
  return btrfsChecksum(block.readUInt16LE(at.checksumType), block.subarray(checksumBytes, superblockBytes));
}
