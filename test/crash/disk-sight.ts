import { closeSync, existsSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { basename } from 'node:path';
import { decodeGuid } from '../../src/pool/kinds/disk/gpt.ts';
import { decodeLabel, type Use } from '../../src/pool/kinds/disk/label.ts';

const mebibyte = 1 << 20;

/** What the labels of disks say; a disk without one is blank. */
export function usesOf(devicePaths: readonly string[]): (Use | { readonly state: 'blank' })[] {
  return devicePaths.map(useOf);
}

function useOf(devicePath: string): Use | { readonly state: 'blank' } {
  const file = openSync(devicePath, 'r');
  try {
    const beginning = Buffer.alloc(2 * mebibyte);
    readSync(file, beginning, 0, beginning.length, 0);
    // Without its first sector a table is none.
    if (beginning.readUInt16LE(510) !== 0xaa55) return { state: 'blank' };
    const diskId = decodeGuid(beginning.subarray(512 + 56, 512 + 72));
    return decodeLabel(beginning.subarray(mebibyte), diskId, devicePath)?.label.use ?? { state: 'free' };
  } finally {
    closeSync(file);
  }
}

/** Whether the kernel shows the data of the disk as a device. */
export function isDataShown(devicePath: string): boolean {
  return existsSync(`/sys/block/${basename(devicePath)}/${dataName(devicePath)}`);
}

/** Of a loop device. */
export function dataName(devicePath: string): string {
  return `${basename(devicePath)}p2`;
}

/** As it came from the factory, as far as anybody looks. */
export function blank(devicePath: string, sizeBytes: number): void {
  const file = openSync(devicePath, 'r+');
  writeSync(file, Buffer.alloc(2 * mebibyte), 0, 2 * mebibyte, 0);
  writeSync(file, Buffer.alloc(mebibyte), 0, mebibyte, sizeBytes - mebibyte);
  fsyncSync(file);
  closeSync(file);
}
