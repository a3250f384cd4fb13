import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';

/** Writes every second block, so that the file lies in so many pieces. Durably. */
export function writeInPieces(path: string, count: number, from = 0): void {
  const file = openSync(path, 'r+');
  const block = Buffer.alloc(4096);
  for (let index = from; index < from + count; index++) {
    block.writeUInt32LE(index + 1);
    writeSync(file, block, 0, block.length, index * 2 * block.length);
  }
  fsyncSync(file);
  closeSync(file);
}
