import { randomBytes } from 'node:crypto';
import { isZeros } from '../../../location/content.ts';

/*
 * The bytes that pvcreate writes at the beginning of a disk (lib/format_text of LVM): zeros in its first four sectors, a label
 * in the second one with the given UUID, and the header of its metadata at 4 KiB. Nothing else before the group is made.
 */

const labelSector = { startBytes: 512, endBytes: 1024 };
const labelMagic = 'LABELONE';
/** Behind the label's own header, of 32 bytes. */
const uuidAt = 32;
const uuidLength = 32;
const metadataHeader = { startBytes: 4096, endBytes: 4608 };
/** Behind a checksum. */
const metadataMagicAt = 4;
const metadataMagic = ' LVM2 x[5A%r0N*>';
/** In that header: where the text of the group begins, counted from the header, and behind it its length; 0: there is none. */
const textAt = 40;
const sectorBytes = 512;
/** Where the sectors end that LVM keeps for the label: whole blocks on any disk. */
export const labelEndBytes = metadataHeader.startBytes;

/** A new UUID in the form of LVM. */
export function newPvUuid(): string {
  const text = randomBytes(uuidLength / 2).toString('hex');
  return [6, 10, 14, 18, 22, 26, 32].map((end, at, ends) => text.slice(ends[at - 1] ?? 0, end)).join('-');
}

/** The start that we have made on a disk. */
export interface Begun {
  /** The UUID that was given to pvcreate, and that no other disk has. */
  readonly pvUuid: string;
  readonly volumeGroup: string;
  /** The group may have volumes, as the disk was being added to it: it is whole without this disk. */
  readonly mayHaveVolumes: boolean;
}

/**
 * True if a disk that was blank holds only what we have begun to write to it: not yet a physical volume, or one without a
 * group, or one of our group while that was made.
 * @param front its first MiB @param tail its last MiB
 */
export function isBegun(front: Buffer, tail: Buffer, { mayHaveVolumes, pvUuid, volumeGroup }: Begun): boolean {
  const label = front.subarray(labelSector.startBytes, labelSector.endBytes);
  const header = front.subarray(metadataHeader.startBytes, metadataHeader.endBytes);
  const isHeader = header.toString('latin1', metadataMagicAt, metadataMagicAt + metadataMagic.length) === metadataMagic;
  if (!isHeader && !isZeros(header)) return false;
  if (label.toString('latin1', 0, labelMagic.length) !== labelMagic) {
    const isBlankBefore = isZeros(front.subarray(0, metadataHeader.startBytes));
    return isBlankBefore && isZeros(front.subarray(metadataHeader.endBytes)) && isZeros(tail);
  }
  if (label.toString('latin1', uuidAt, uuidAt + uuidLength) !== pvUuid.replaceAll('-', '')) return false;
  if (!mayHaveVolumes && front.includes('logical_volumes', metadataHeader.endBytes)) return false;
  return !isHeader || isOfNoOtherGroup(front, header, volumeGroup);
}

/** Another program that found our physical volume may have made a group of it. */
function isOfNoOtherGroup(front: Buffer, header: Buffer, volumeGroup: string): boolean {
  if (header.readBigUInt64LE(textAt + 8) === 0n) return true;
  const startBytes = BigInt(metadataHeader.startBytes) + header.readBigUInt64LE(textAt);
  if (startBytes + BigInt(sectorBytes) > BigInt(front.length)) return false;
  const text = front.subarray(Number(startBytes), Number(startBytes) + sectorBytes);
  // Cut short by a power cut, the header can be on the disk without its text.
  return isZeros(text) || text.toString('latin1').startsWith(`${volumeGroup} {`);
}
