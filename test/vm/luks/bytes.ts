import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';

/** Durably. */
export function overwrite(path: string, bytes: Buffer, offset = 0): void {
  const file = openSync(path, 'r+');
  writeSync(file, bytes, 0, bytes.length, offset);
  fsyncSync(file);
  closeSync(file);
}

export function read(path: string, length: number, offset = 0): Buffer {
  const bytes = Buffer.alloc(length);
  const file = openSync(path, 'r');
  readSync(file, bytes, 0, length, offset);
  closeSync(file);
  return bytes;
}
