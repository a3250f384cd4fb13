import { createHash } from 'node:crypto';
import type { Disk } from '../../../../kernel/block/disks.ts';

/** The longest addition to a section's name: a dash, the serial number's end, a dash, the digest. */
const longestSerial = 12;
const digestCharacters = 6;
/** The name of a pool has at most 63 characters (src/config/file.ts). */
export const longestSectionName = 63 - longestSerial - digestCharacters - 2;

/**
 * The pool of a disk that a section matches: `big-v8g6a1b-k3x7q2`. The same for the same disk at all times; what people know the
 * disk by is in it, and what the kernel knows it by makes it the only one.
 * @param identity its permanent name
 */
export function poolNameFor(section: string, { serial }: Pick<Disk, 'serial'>, identity: string): string {
  const readable = (serial ?? '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '')
    .slice(-longestSerial);
  const digest = base32(createHash('sha256').update(identity).digest()).slice(0, digestCharacters);
  return [section, ...(readable === '' ? [] : [readable]), digest].join('-');
}

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';

/** Each byte's lower five bits: as good as any of a digest. */
function base32(bytes: Buffer): string {
  return Array.from(bytes, (byte) => alphabet[byte & 31]).join('');
}
