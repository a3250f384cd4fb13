import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import type { DeviceNumber } from '../device.ts';

/*
 * The names that a logical unit has for itself (SPC-4, 7.8.6: VPD page 83h, Device Identification). It may have several, and which
 * of them a kernel, udev or multipathd shows as the one depends on their versions.
 */

const headerBytes = 4;
const binary = 1;
const ofTheUnit = 0;
const types = { eui64: 2, naa: 3, text: 8 } as const;
/** A name in a text, and one in the form of sysfs: 8, 12 or 16 bytes. */
const name = /^(naa|eui)\.([0-9a-f]{16}|[0-9a-f]{24}|[0-9a-f]{32})$/;

/** @returns the names of the forms NAA and EUI-64, as sysfs writes them, those that tell most first: `naa.6001405…` */
export function unitNamesIn(page: Buffer): string[] {
  const found = new Set<string>();
  for (let at = headerBytes; at + headerBytes <= page.length; ) {
    const [codes = 0, kind = 0, , lengthBytes = 0] = page.subarray(at, at + headerBytes);
    at += headerBytes;
    // The rest was cut off: half a name would be another one.
    if (at + lengthBytes > page.length) break;
    const word = nameIn(codes & 15, kind, page.subarray(at, at + lengthBytes));
    if (word !== undefined && name.test(word)) found.add(word);
    at += lengthBytes;
  }
  return [...found].sort((a, b) => rankOf(a) - rankOf(b) || b.length - a.length || (a < b ? -1 : 1));
}

function nameIn(codeSet: number, kind: number, bytes: Buffer): string | undefined {
  if (((kind >> 4) & 3) !== ofTheUnit) return undefined;
  const type = kind & 15;
  if (type === types.text) return bytes.toString('latin1').replace(/\0.*$/s, '').toLowerCase();
  if (codeSet !== binary) return undefined;
  if (type === types.naa) return `naa.${bytes.toString('hex')}`;
  return type === types.eui64 ? `eui.${bytes.toString('hex')}` : undefined;
}

/** multipathd prefers NAA, too. */
function rankOf(word: string): number {
  return word.startsWith('naa.') ? 0 : 1;
}

/** The names of a SCSI disk; none if it has no such page. @param root of sysfs, for tests */
export async function unitNamesOf(
  queue: DiskQueue,
  { major, minor }: DeviceNumber,
  root = '/sys',
): Promise<readonly string[]> {
  const path = join(root, `dev/block/${major}:${minor}/device/vpd_pg83`);
  try {
    return unitNamesIn(await queue.run(() => readFile(path)));
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR', 'ENXIO', 'EINVAL', 'EIO', 'ENODEV')) return [];
    throw error;
  }
}
