import { allOnes, crc32c } from '../kernel/block/crc32.ts';

/** struct ext4_super_block (Documentation/filesystems/ext4/super.rst): one, and copies of it in some of the groups. */
export const superblockBytes = 1024;
/** Offset of the first one, for any block size. */
export const firstSuperblockOffset = 1024n;

const magic = 0xef53;
const uuidBytes = 16;
/** EXT4_JOURNAL_INO. */
const journalInode = 8;
/** For blocks of 64 KiB. */
const largestLogBlockSize = 6;

const COMPAT_HAS_JOURNAL = 0x4;
const COMPAT_SPARSE_SUPER2 = 0x200;
const COMPAT_STABLE_INODES = 0x800;
const INCOMPAT_RECOVER = 0x4;
const INCOMPAT_64BIT = 0x80;
const INCOMPAT_CSUM_SEED = 0x2000;
const RO_COMPAT_SPARSE_SUPER = 0x1;
const RO_COMPAT_GDT_CSUM = 0x10;
const RO_COMPAT_METADATA_CSUM = 0x400;

const at = {
  blocksLow: 4,
  firstDataBlock: 20,
  logBlockSize: 24,
  blocksPerGroup: 32,
  magic: 56,
  groupNumber: 90,
  compat: 92,
  incompat: 96,
  roCompat: 100,
  uuid: 104,
  journalInode: 224,
  blocksHigh: 336,
  backupGroups: 588,
  checksumSeed: 624,
  checksum: 1020,
} as const;

/** Properties of a filesystem that decide how its UUID can be changed. */
export interface Ext4Traits {
  /** The data that was fsynced last is still in the journal, to be replayed at the next mount. */
  readonly needsRecovery: boolean;
  /** Its encrypted files can be read only with this UUID (stable_inodes of ext4(5)). */
  readonly keepsUuid: boolean;
  /** Each group's descriptor has a checksum that goes by the UUID: the old kind, uninit_bg of ext4(5). */
  readonly hasGroupChecksums: boolean;
}

export function traitsOf(block: Buffer): Ext4Traits {
  const compat = block.readUInt32LE(at.compat);
  const roCompat = block.readUInt32LE(at.roCompat);
  return {
    needsRecovery: (compat & COMPAT_HAS_JOURNAL) !== 0 && (block.readUInt32LE(at.incompat) & INCOMPAT_RECOVER) !== 0,
    keepsUuid: (compat & COMPAT_STABLE_INODES) !== 0,
    hasGroupChecksums: (roCompat & RO_COMPAT_GDT_CSUM) !== 0 && (roCompat & RO_COMPAT_METADATA_CSUM) === 0,
  };
}

/** Answers if the block is the superblock, or its copy in this group, and undamaged. */
export function isSuperblock(block: Buffer, group: number): boolean {
  if (block.length < superblockBytes || block.readUInt16LE(at.magic) !== magic) return false;
  // It has 16 bits, for any number of groups.
  if (block.readUInt16LE(at.groupNumber) !== (group & 0xffff)) return false;
  return !hasChecksum(block) || block.readUInt32LE(at.checksum) === checksumOf(block);
}

/**
 * A superblock with the checksum of what it says. The kernel writes it in place, reads it before the journal, and it is
 * larger than what a disk has to write as a whole: a power cut can leave its first sector of one state and its second, with
 * the checksum, of another. The second differs in nothing else, unless the filesystem grew just then.
 * @returns undefined if it is sound, or not of a filesystem as mke2fs makes them
 */
export function completedSuperblock(block: Buffer): Buffer | undefined {
  if (!hasChecksum(block) || isSuperblock(block, 0) || !isUsual(block)) return undefined;
  const completed = Buffer.from(block);
  completed.writeUInt32LE(checksumOf(block), at.checksum);
  return isSuperblock(completed, 0) ? completed : undefined;
}

/** Keeps a damaged superblock from being taken for one that mke2fs made. */
function isUsual(block: Buffer): boolean {
  const isSparse = (block.readUInt32LE(at.roCompat) & RO_COMPAT_SPARSE_SUPER) !== 0;
  const hasJournal = (block.readUInt32LE(at.compat) & COMPAT_HAS_JOURNAL) !== 0;
  const isJournalUsual = !hasJournal || block.readUInt32LE(at.journalInode) === journalInode;
  return isSparse && isJournalUsual && block.readUInt32LE(at.logBlockSize) <= largestLogBlockSize;
}

/** Fields that a filesystem is made with, and keeps when it grows: the sizes of blocks, groups and inodes, and its UUID. */
const constants: readonly (readonly [number, number])[] = [
  [20, 44],
  [88, 90],
  [at.uuid, at.uuid + uuidBytes],
];

/** Answers if two superblocks are of one filesystem. */
export function areOfOneFilesystem(a: Buffer, b: Buffer): boolean {
  return constants.every(([from, to]) => a.subarray(from, to).equals(b.subarray(from, to)));
}

/** Where a copy lies. */
export interface SuperblockCopy {
  readonly group: number;
  readonly offsetBytes: bigint;
}

/** The copies behind the first superblock (ext2fs_bg_has_super of libext2fs). */
export function copiesOf(first: Buffer): SuperblockCopy[] {
  const is64Bit = (first.readUInt32LE(at.incompat) & INCOMPAT_64BIT) !== 0;
  const blocks =
    BigInt(first.readUInt32LE(at.blocksLow)) + (is64Bit ? BigInt(first.readUInt32LE(at.blocksHigh)) << 32n : 0n);
  const firstDataBlock = BigInt(first.readUInt32LE(at.firstDataBlock));
  const blocksPerGroup = BigInt(first.readUInt32LE(at.blocksPerGroup));
  if (blocksPerGroup === 0n) return [];
  const groups = Number((blocks - firstDataBlock + blocksPerGroup - 1n) / blocksPerGroup);
  const blockBytes = blockBytesOf(first);
  return copyGroups(first, groups).map((group) => ({
    group,
    offsetBytes: (firstDataBlock + BigInt(group) * blocksPerGroup) * blockBytes,
  }));
}

export function blockBytesOf(block: Buffer): bigint {
  return 1024n << BigInt(block.readUInt32LE(at.logBlockSize));
}

function copyGroups(first: Buffer, groups: number): number[] {
  if ((first.readUInt32LE(at.compat) & COMPAT_SPARSE_SUPER2) !== 0) {
    const two = [first.readUInt32LE(at.backupGroups), first.readUInt32LE(at.backupGroups + 4)];
    return two.filter((group) => group !== 0 && group < groups);
  }
  if ((first.readUInt32LE(at.roCompat) & RO_COMPAT_SPARSE_SUPER) === 0) {
    return Array.from({ length: Math.max(0, groups - 1) }, (_, index) => index + 1);
  }
  const powers = [3, 5, 7].flatMap((base) => powersBelow(base, groups));
  return groups > 1 ? [1, ...powers] : [];
}

function powersBelow(base: number, limit: number): number[] {
  const powers: number[] = [];
  for (let power = base; power < limit; power *= base) powers.push(power);
  return powers;
}

/** Seed of all checksums of a filesystem, as long as it has the UUID that it was made with. */
export function checksumSeedOf(block: Buffer): number {
  if ((block.readUInt32LE(at.incompat) & INCOMPAT_CSUM_SEED) !== 0) return block.readUInt32LE(at.checksumSeed);
  return crc32c(allOnes, block.subarray(at.uuid, at.uuid + uuidBytes));
}

/**
 * The superblock of the same filesystem under another UUID. Nothing else of it changes: where checksums go by the UUID
 * they go by the seed from now on, which is that of the UUID that it was made with (metadata_csum_seed of ext4(5)).
 * @param seed of the first superblock
 */
export function withUuid(block: Buffer, uuid: Buffer, seed: number): Buffer {
  const changed = Buffer.from(block);
  uuid.copy(changed, at.uuid, 0, uuidBytes);
  if (!hasChecksum(block)) return changed;
  changed.writeUInt32LE((block.readUInt32LE(at.incompat) | INCOMPAT_CSUM_SEED) >>> 0, at.incompat);
  changed.writeUInt32LE(seed, at.checksumSeed);
  changed.writeUInt32LE(checksumOf(changed), at.checksum);
  return changed;
}

function hasChecksum(block: Buffer): boolean {
  return (block.readUInt32LE(at.roCompat) & RO_COMPAT_METADATA_CSUM) !== 0;
}

function checksumOf(block: Buffer): number {
  return crc32c(allOnes, block.subarray(0, at.checksum));
}
