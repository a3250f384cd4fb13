import { createHash } from 'node:crypto';
import { digestOf } from '../copy.ts';

/** From here on another thread is worth its way. */
const largeBytes = 64 << 10;

/** The digest of data of a file: most files are small. */
export async function dataDigest(bytes: Buffer<ArrayBuffer>): Promise<Buffer> {
  return bytes.length < largeBytes ? recordsDigest(bytes) : digestOf(bytes);
}

/** The digest of records. */
export function recordsDigest(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest();
}
