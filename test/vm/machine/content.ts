import { createCipheriv, createHash } from 'node:crypto';

/** Bytes that look like chance, and are the same wherever they are made from the same number. */
export function contentOf(seed: number, sizeBytes: number): Buffer {
  const key = createHash('md5').update(`${seed}`).digest();
  return createCipheriv('aes-128-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(sizeBytes));
}

export function checksumOf(data: Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}
