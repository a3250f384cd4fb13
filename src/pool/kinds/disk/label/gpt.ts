import { createHash } from 'node:crypto';
import { crc32 } from '../../../../kernel/block/crc32.ts';
import { type DiskShape, entriesBytes, layoutOf } from './layout.ts';

/* The table of partitions of a disk of ours: UEFI specification, 5.2.3 and 5.3. */

/** The type of our one partition, which no other program has. It stands for the format of what lies in it. */
const partitionTypeGuid = '8f3c2a5e-6d1b-4c59-9e27-486f6c644673';

const signature = Buffer.from('EFI PART');
const revision = 0x00010000;
const headerBytes = 92;
const entryBytes = 128;
const partitionName = 'Holdfast';

/** Pieces of the table, in the order in which they are written: see `Labelling`. */
export interface GptPieces {
  readonly mbr: Piece;
  readonly primaryHeader: Piece;
  readonly primaryEntries: Piece;
  readonly backupEntries: Piece;
  readonly backupHeader: Piece;
}

export interface Piece {
  readonly offsetBytes: bigint;
  readonly bytes: Buffer;
}

/** All of it follows from the id of the pool and the shape of the disk. */
export function gptOf(poolId: string, shape: DiskShape): GptPieces {
  const { sectorBytes, sizeBytes } = shape;
  const sector = BigInt(sectorBytes);
  const lastLba = sizeBytes / sector - 1n;
  const entriesLbas = entriesBytes / sector;
  const entries = entriesOf(poolId, shape);
  const common = {
    poolId,
    sectorBytes,
    entries,
    firstUsableLba: 2n + entriesLbas,
    lastUsableLba: lastLba - 1n - entriesLbas,
  };
  const primary = { ...common, ownLba: 1n, otherLba: lastLba, entriesLba: 2n };
  const backup = { ...common, ownLba: lastLba, otherLba: 1n, entriesLba: lastLba - entriesLbas };
  return {
    mbr: { offsetBytes: 0n, bytes: protectiveMbr(sectorBytes, lastLba) },
    primaryHeader: { offsetBytes: sector, bytes: headerOf(primary) },
    primaryEntries: { offsetBytes: 2n * sector, bytes: entries },
    backupEntries: { offsetBytes: backup.entriesLba * sector, bytes: entries },
    backupHeader: { offsetBytes: lastLba * sector, bytes: headerOf(backup) },
  };
}

/** The statement of a half of a table about the disk. */
export interface GptFound {
  readonly poolId: string;
  /** Where the last sector of the disk was when it was labelled. */
  readonly diskBytes: bigint;
}

/**
 * A table that another program has written again is ours as long as it names our partition first: e.g. with another
 * name or flags.
 * @param header a sector in which a header of a table may lie @param entries what may be its entries
 * @returns undefined if it is none of ours, or not whole
 */
export function readGpt(header: Buffer, entries: Buffer): GptFound | undefined {
  if (header.length < headerBytes || !header.subarray(0, 8).equals(signature)) return undefined;
  if (header.readUInt32LE(8) !== revision || header.readUInt32LE(12) !== headerBytes) return undefined;
  const bare = Buffer.from(header.subarray(0, headerBytes));
  bare.writeUInt32LE(0, 16);
  if (crc32(bare) !== header.readUInt32LE(16)) return undefined;
  if (header.readUInt32LE(80) !== Number(entriesBytes) / entryBytes || header.readUInt32LE(84) !== entryBytes)
    return undefined;
  if (
    entries.length < Number(entriesBytes) ||
    crc32(entries.subarray(0, Number(entriesBytes))) !== header.readUInt32LE(88)
  ) {
    return undefined;
  }
  if (guidAt(entries, 0) !== partitionTypeGuid) return undefined;
  const [own, other] = [header.readBigUInt64LE(24), header.readBigUInt64LE(32)];
  const lastLba = own > other ? own : other;
  return { poolId: guidAt(header, 56), diskBytes: (lastLba + 1n) * BigInt(header.length) };
}

/** True if a table names more than our partition. */
export function hasMoreEntries(entries: Buffer): boolean {
  return entries.subarray(entryBytes, Number(entriesBytes)).some((byte) => byte !== 0);
}

/** True if a sector is a whole header of a foreign table. */
export function hasHeaderOfOthers(header: Buffer, poolId: string): boolean {
  return hasWholeHeader(header) && guidAt(header, 56) !== poolId;
}

function hasWholeHeader(header: Buffer): boolean {
  if (header.length < headerBytes || !header.subarray(0, 8).equals(signature)) return false;
  if (header.readUInt32LE(12) < headerBytes || header.readUInt32LE(12) > header.length) return false;
  const bare = Buffer.from(header.subarray(0, header.readUInt32LE(12)));
  bare.writeUInt32LE(0, 16);
  return crc32(bare) === header.readUInt32LE(16);
}

const mbrEntriesAt = 446;
const mbrEntryBytes = 16;
const mbrMagicAt = 510;
/** The type that stands for a GPT. */
const protectiveType = 0xee;

/** True if the first sector names partitions, as that of a disk with a GPT does not. */
export function hasPartitionsOfOthers(firstSector: Buffer): boolean {
  return typesIn(firstSector).some((type) => type !== 0 && type !== protectiveType);
}

/** True if the first sector stands for a GPT. */
export function isProtective(firstSector: Buffer): boolean {
  return typesIn(firstSector).includes(protectiveType);
}

/** The types of partitions in the old table of PCs; none if it is no table. */
function typesIn(firstSector: Buffer): (number | undefined)[] {
  if (firstSector.readUInt16LE(mbrMagicAt) !== 0xaa55) return [];
  return [0, 1, 2, 3].map((index) => firstSector[mbrEntriesAt + index * mbrEntryBytes + 4]);
}

interface Header {
  readonly poolId: string;
  readonly sectorBytes: number;
  readonly entries: Buffer;
  readonly ownLba: bigint;
  readonly otherLba: bigint;
  readonly entriesLba: bigint;
  readonly firstUsableLba: bigint;
  readonly lastUsableLba: bigint;
}

function headerOf({
  entries,
  entriesLba,
  firstUsableLba,
  lastUsableLba,
  otherLba,
  ownLba,
  poolId,
  sectorBytes,
}: Header): Buffer {
  const header = Buffer.alloc(sectorBytes);
  signature.copy(header);
  header.writeUInt32LE(revision, 8);
  header.writeUInt32LE(headerBytes, 12);
  header.writeBigUInt64LE(ownLba, 24);
  header.writeBigUInt64LE(otherLba, 32);
  header.writeBigUInt64LE(firstUsableLba, 40);
  header.writeBigUInt64LE(lastUsableLba, 48);
  writeGuid(header, 56, poolId);
  header.writeBigUInt64LE(entriesLba, 72);
  header.writeUInt32LE(Number(entriesBytes) / entryBytes, 80);
  header.writeUInt32LE(entryBytes, 84);
  header.writeUInt32LE(crc32(entries), 88);
  header.writeUInt32LE(crc32(header.subarray(0, headerBytes)), 16);
  return header;
}

/** One entry, and 127 empty ones. */
function entriesOf(poolId: string, shape: DiskShape): Buffer {
  const { lengthBytes, offsetBytes } = layoutOf(shape).partition;
  const sector = BigInt(shape.sectorBytes);
  const entries = Buffer.alloc(Number(entriesBytes));
  writeGuid(entries, 0, partitionTypeGuid);
  writeGuid(entries, 16, partitionGuidOf(poolId));
  entries.writeBigUInt64LE(offsetBytes / sector, 32);
  entries.writeBigUInt64LE((offsetBytes + lengthBytes) / sector - 1n, 40);
  entries.write(partitionName, 56, 'utf16le');
  return entries;
}

/** Another one than the disk's, and the same each time: a UUID of version 8 (RFC 9562). */
function partitionGuidOf(poolId: string): string {
  const bytes = createHash('sha256').update(`holdfast partition ${poolId}`).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return dashed(bytes.toString('hex'));
}

/** One partition of type EEh over the whole disk, so that programs that know no GPT take it for full. */
function protectiveMbr(sectorBytes: number, lastLba: bigint): Buffer {
  const mbr = Buffer.alloc(sectorBytes);
  Buffer.from([0x00, 0x00, 0x02, 0x00, 0xee, 0xff, 0xff, 0xff]).copy(mbr, 446);
  mbr.writeUInt32LE(1, 454);
  mbr.writeUInt32LE(lastLba > 0xffffffffn ? 0xffffffff : Number(lastLba), 458);
  mbr.writeUInt16BE(0x55aa, 510);
  return mbr;
}

/** The first three fields of a GUID are stored with the low byte first (UEFI, appendix A). */
function writeGuid(target: Buffer, at: number, guid: string): void {
  const bytes = Buffer.from(guid.replaceAll('-', ''), 'hex');
  bytes.subarray(0, 4).reverse();
  bytes.subarray(4, 6).reverse();
  bytes.subarray(6, 8).reverse();
  bytes.copy(target, at);
}

function guidAt(source: Buffer, at: number): string {
  const bytes = Buffer.from(source.subarray(at, at + 16));
  bytes.subarray(0, 4).reverse();
  bytes.subarray(4, 6).reverse();
  bytes.subarray(6, 8).reverse();
  return dashed(bytes.toString('hex'));
}

function dashed(hex: string): string {
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
