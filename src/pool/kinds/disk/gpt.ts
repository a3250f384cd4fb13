import { crc32 } from './crc32.ts';
import { dataPlace, type Geometry, labelPlace, smallestDiskBytes } from './layout.ts';

/*
 * The partition table of a disk of ours: a GPT (UEFI specification, chapter 5) with two partitions whose types nobody else
 * has. All of it follows from the disk's geometry and one GUID, so it can be compared byte by byte: what is not exactly
 * what we would have written is somebody else's.
 */

/** Of partitions that hold labels, and data of volumes; drawn once for Holdfast. */
const labelType = '6d1c5a3e-94b7-4f0a-8e21-70d35b9c4f11';
const dataType = '2f8e07b4-1d6c-4c55-a9e3-b8427f60d512';

const entryCount = 128;
const entryBytes = 128;
const headerBytes = 92;
const signature = Buffer.from('EFI PART', 'latin1');

/** How much of a disk's beginning and end belongs to the table, and has to be read to judge it. */
export const beginningBytes = Number(labelPlace.startBytes);
export const endBytes = 1 << 20;

/** Something that lies at one place of the disk. */
export interface Piece {
  readonly offsetBytes: bigint;
  readonly bytes: Buffer;
}

/** In the order in which they are to be written: from the last one on the disk is ours. */
export interface Table {
  readonly backup: Piece;
  readonly primary: Piece;
  /** One sector; without it nobody takes the rest for a partition table. */
  readonly protective: Piece;
}

export function buildTable(geometry: Geometry, diskId: string): Table {
  const { sectorBytes } = geometry;
  const sector = BigInt(sectorBytes);
  const lastSector = geometry.sizeBytes / sector - 1n;
  const entries = buildEntries(geometry, diskId);
  const entrySectors = BigInt(Math.ceil(entries.length / sectorBytes));
  const backupEntries = lastSector - entrySectors;
  const header = (own: bigint, other: bigint, entriesAt: bigint): Buffer =>
    buildHeader(
      { own, other, entriesAt, firstUsable: 2n + entrySectors, lastUsable: backupEntries - 1n },
      { sectorBytes, diskId, entries },
    );
  return {
    backup: {
      offsetBytes: backupEntries * sector,
      bytes: Buffer.concat([entries, header(lastSector, 1n, backupEntries)]),
    },
    primary: { offsetBytes: sector, bytes: Buffer.concat([header(1n, lastSector, 2n), entries]) },
    protective: { offsetBytes: 0n, bytes: buildProtective(lastSector, sectorBytes) },
  };
}

function buildEntries(geometry: Geometry, diskId: string): Buffer {
  const sector = BigInt(geometry.sectorBytes);
  const entries = Buffer.alloc(Math.ceil((entryCount * entryBytes) / geometry.sectorBytes) * geometry.sectorBytes);
  const partitions = [
    { ...labelPlace, type: labelType, name: 'holdfast label' },
    { ...dataPlace(geometry), type: dataType, name: 'holdfast volume' },
  ];
  for (const { lengthBytes, name, number, startBytes, type } of partitions) {
    const at = (number - 1) * entryBytes;
    encodeGuid(type).copy(entries, at);
    partitionGuid(diskId, number).copy(entries, at + 16);
    entries.writeBigUInt64LE(startBytes / sector, at + 32);
    entries.writeBigUInt64LE((startBytes + lengthBytes) / sector - 1n, at + 40);
    entries.write(name, at + 56, 'utf16le');
  }
  return entries;
}

/** Of the disk's, with the number in the last byte but for its lower bit. */
function partitionGuid(diskId: string, number: number): Buffer {
  const guid = encodeGuid(diskId);
  guid.writeUInt8((guid.readUInt8(15) ^ number) & 0xff, 15);
  return guid;
}

interface HeaderPlaces {
  readonly own: bigint;
  readonly other: bigint;
  readonly entriesAt: bigint;
  readonly firstUsable: bigint;
  readonly lastUsable: bigint;
}

function buildHeader(
  { entriesAt, firstUsable, lastUsable, other, own }: HeaderPlaces,
  { diskId, entries, sectorBytes }: { sectorBytes: number; diskId: string; entries: Buffer },
): Buffer {
  const header = Buffer.alloc(sectorBytes);
  signature.copy(header, 0);
  header.writeUInt32LE(0x00010000, 8);
  header.writeUInt32LE(headerBytes, 12);
  header.writeBigUInt64LE(own, 24);
  header.writeBigUInt64LE(other, 32);
  header.writeBigUInt64LE(firstUsable, 40);
  header.writeBigUInt64LE(lastUsable, 48);
  encodeGuid(diskId).copy(header, 56);
  header.writeBigUInt64LE(entriesAt, 72);
  header.writeUInt32LE(entryCount, 80);
  header.writeUInt32LE(entryBytes, 84);
  header.writeUInt32LE(crc32(entries.subarray(0, entryCount * entryBytes)), 88);
  header.writeUInt32LE(crc32(header.subarray(0, headerBytes)), 16);
  return header;
}

function buildProtective(lastSector: bigint, sectorBytes: number): Buffer {
  const sector = Buffer.alloc(sectorBytes);
  sector.set([0x00, 0x00, 0x02, 0x00, 0xee, 0xff, 0xff, 0xff], 446);
  sector.writeUInt32LE(1, 454);
  sector.writeUInt32LE(lastSector > 0xffffffffn ? 0xffffffff : Number(lastSector), 458);
  sector.writeUInt16LE(0xaa55, 510);
  return sector;
}

/** What the table of a disk says of whose it is. */
export type TableVerdict =
  /** Zeros, as far as a table reaches at the beginning and at the end. */
  | { readonly kind: 'none' }
  /** @property isWhole else somebody has written to it since; `sizeBytes` of the disk when it was made */
  | { readonly kind: 'ours'; readonly diskId: string; readonly sizeBytes: bigint; readonly isWhole: boolean }
  /** Begun by us, and never finished: no part of a volume can be on the disk yet. */
  | { readonly kind: 'begun' }
  /** Ours, of a larger disk than this one. */
  | { readonly kind: 'cut'; readonly sizeBytes: bigint }
  /** @property place where there is something that we have not written */
  | { readonly kind: 'foreign'; readonly place: 'beginning' | 'end' };

/** @param beginning `beginningBytes` from the start of the disk. @param end its last `endBytes` */
export function judgeTable(geometry: Geometry, beginning: Buffer, end: Buffer): TableVerdict {
  if (isZeros(beginning) && isZeros(end)) return { kind: 'none' };
  const { sectorBytes } = geometry;
  for (const header of [beginning.subarray(sectorBytes, sectorBytes * 2), end.subarray(end.length - sectorBytes)]) {
    const verdict = judgeBy(header, geometry, beginning, end);
    if (verdict !== undefined) return verdict;
  }
  if (!isZeros(beginning)) return { kind: 'foreign', place: 'beginning' };
  return isBackupBegun(geometry, end) ? { kind: 'begun' } : { kind: 'foreign', place: 'end' };
}

/** The second copy is written first, and its header may be what did not get onto the disk. */
function isBackupBegun(geometry: Geometry, end: Buffer): boolean {
  const entriesAt =
    end.length -
    geometry.sectorBytes -
    Math.ceil((entryCount * entryBytes) / geometry.sectorBytes) * geometry.sectorBytes;
  const guid = Buffer.from(end.subarray(entriesAt + 16, entriesAt + 32));
  const diskId = decodeGuid(partitionGuid(decodeGuid(guid), labelPlace.number));
  return isPartOf(end, endWith(buildTable(geometry, diskId)), geometry.sectorBytes);
}

/** The end of a disk that has nothing there but the second copy of its table. */
function endWith({ backup }: Table): Buffer {
  const end = Buffer.alloc(endBytes);
  backup.bytes.copy(end, end.length - backup.bytes.length);
  return end;
}

/** Compares with what we would have written of the disk that the header tells of. */
function judgeBy(header: Buffer, geometry: Geometry, beginning: Buffer, end: Buffer): TableVerdict | undefined {
  if (!header.subarray(0, signature.length).equals(signature)) return undefined;
  const { sectorBytes } = geometry;
  const places = [header.readBigUInt64LE(24), header.readBigUInt64LE(32)];
  const lastSector = places.reduce((a, b) => (a > b ? a : b));
  const sizeBytes = (lastSector + 1n) * BigInt(sectorBytes);
  if (sizeBytes < smallestDiskBytes || sizeBytes > 1n << 62n) return undefined;
  const diskId = decodeGuid(header.subarray(56, 72));
  const table = buildTable({ sizeBytes, sectorBytes }, diskId);
  const expected = Buffer.alloc(beginning.length);
  table.protective.bytes.copy(expected, 0);
  table.primary.bytes.copy(expected, sectorBytes);
  const isProtected = beginning.subarray(0, sectorBytes).equals(table.protective.bytes);
  const isPrimaryWhole = beginning.subarray(sectorBytes).equals(expected.subarray(sectorBytes));
  if (sizeBytes > geometry.sizeBytes) return isPrimaryWhole ? { kind: 'cut', sizeBytes } : undefined;
  // A disk that became larger since has its second copy somewhere in the middle: it is not looked for.
  const isBackupWhole =
    sizeBytes !== geometry.sizeBytes || end.subarray(end.length - table.backup.bytes.length).equals(table.backup.bytes);
  if (isProtected && (isPrimaryWhole || isBackupWhole)) {
    return { kind: 'ours', diskId, sizeBytes, isWhole: isPrimaryWhole && isBackupWhole };
  }
  const expectedEnd = sizeBytes === geometry.sizeBytes ? endWith(table) : Buffer.alloc(end.length);
  const isBegun = isPartOf(beginning, expected, sectorBytes) && isPartOf(end, expectedEnd, sectorBytes);
  return isBegun ? { kind: 'begun' } : undefined;
}

/** Whether each sector is as it is to be, or still zeros. */
export function isPartOf(bytes: Buffer, whole: Buffer, sectorBytes: number): boolean {
  for (let at = 0; at < bytes.length; at += sectorBytes) {
    const sector = bytes.subarray(at, at + sectorBytes);
    if (!sector.equals(whole.subarray(at, at + sectorBytes)) && !isZeros(sector)) return false;
  }
  return true;
}

/** The first three groups are little-endian (RFC 9562 has them the other way round). */
export function encodeGuid(guid: string): Buffer {
  const bytes = Buffer.from(guid.replaceAll('-', ''), 'hex');
  return swapGroups(bytes);
}

export function decodeGuid(bytes: Buffer): string {
  const hex = swapGroups(Buffer.from(bytes)).toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

function swapGroups(bytes: Buffer): Buffer {
  bytes.subarray(0, 4).reverse();
  bytes.subarray(4, 6).reverse();
  bytes.subarray(6, 8).reverse();
  return bytes;
}

const zeros = Buffer.alloc(beginningBytes);

export function isZeros(bytes: Buffer): boolean {
  return bytes.equals(zeros.subarray(0, bytes.length));
}
