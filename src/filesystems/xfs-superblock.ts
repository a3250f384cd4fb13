import { allOnes, crc32c } from '../kernel/block/crc32.ts';

/** struct xfs_dsb (fs/xfs/libxfs/xfs_format.h), big-endian: one at the beginning of each allocation group. */
const magic = Buffer.from('XFSB');
const uuidBytes = 16;
/** mkfs.xfs(8): the largest sector. The superblock takes one. */
export const largestSectorBytes = 32_768;

/** The UUID in all other metadata is not the one that the filesystem is known by, but `sb_meta_uuid`. Linux 4.3. */
const INCOMPAT_META_UUID = 0x4;

const at = {
  blockBytes: 4,
  uuid: 32,
  logStart: 48,
  groupBlocks: 84,
  groupCount: 88,
  logBlocks: 96,
  version: 100,
  sectorBytes: 102,
  groupBlocksLog: 124,
  incompat: 216,
  checksum: 224,
  metaUuid: 248,
} as const;

export interface XfsGeometry {
  /** 5: with checksums. 4: without. */
  readonly version: number;
  readonly sectorBytes: number;
  /** Offsets of the superblocks of all allocation groups. */
  readonly superblockOffsets: readonly bigint[];
  /** undefined: it lies on another device. */
  readonly log: { readonly offsetBytes: bigint; readonly lengthBytes: bigint } | undefined;
}

/** Answers if the block has the magic number of a superblock. @param block its sector at least */
export function isXfs(block: Buffer): boolean {
  return block.length >= 512 && block.subarray(0, magic.length).equals(magic);
}

/** Answers if the sector is the superblock of an XFS with checksums, and undamaged. @param sector no more than that */
export function isSuperblock(sector: Buffer): boolean {
  return isXfs(sector) && sector.readUInt32LE(at.checksum) === checksumOf(sector);
}

export function geometryOf(block: Buffer): XfsGeometry {
  const blockBytes = BigInt(block.readUInt32BE(at.blockBytes));
  const groupBlocks = BigInt(block.readUInt32BE(at.groupBlocks));
  const groupBytes = groupBlocks * blockBytes;
  const logStart = block.readBigUInt64BE(at.logStart);
  // A filesystem's block is named by its group and its place in that, the latter in this number of bits.
  const groupBits = BigInt(block.readUInt8(at.groupBlocksLog));
  const logBlock = (logStart >> groupBits) * groupBlocks + (logStart & ((1n << groupBits) - 1n));
  const logBytes = BigInt(block.readUInt32BE(at.logBlocks)) * blockBytes;
  return {
    version: block.readUInt16BE(at.version) & 0xf,
    sectorBytes: block.readUInt16BE(at.sectorBytes),
    superblockOffsets: Array.from(
      { length: block.readUInt32BE(at.groupCount) },
      (_, group) => BigInt(group) * groupBytes,
    ),
    log: logStart === 0n ? undefined : { offsetBytes: logBlock * blockBytes, lengthBytes: logBytes },
  };
}

/** The superblock of the same filesystem under another UUID. Its other metadata keeps the one it was made with. */
export function withUuid(sector: Buffer, uuid: Buffer): Buffer {
  const changed = Buffer.from(sector);
  const incompat = sector.readUInt32BE(at.incompat);
  if ((incompat & INCOMPAT_META_UUID) === 0) {
    sector.copy(changed, at.metaUuid, at.uuid, at.uuid + uuidBytes);
    changed.writeUInt32BE((incompat | INCOMPAT_META_UUID) >>> 0, at.incompat);
  }
  uuid.copy(changed, at.uuid, 0, uuidBytes);
  changed.writeUInt32LE(checksumOf(changed), at.checksum);
  return changed;
}

/** Checksum of the whole sector, with zeros in its own place. */
function checksumOf(sector: Buffer): number {
  const before = crc32c(allOnes, sector.subarray(0, at.checksum));
  const zeros = crc32c(before, Buffer.alloc(4));
  return ~crc32c(zeros, sector.subarray(at.checksum + 4)) >>> 0;
}
