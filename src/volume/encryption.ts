import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { granularityBytes, roundUp } from './size.ts';

export const encryptionTypes = ['luks2'] as const;
export type EncryptionType = (typeof encryptionTypes)[number];

/** How a volume's data is encrypted. Never says anything of a key but its name. */
export interface Encryption {
  readonly type: EncryptionType;
  /** Where the user's data begins. It is added to the volume's size, and fixed for its life. */
  readonly headerBytes: number;
  /** Names the key that opens it, by chance: what is cloned needs the same key, and a new key has a new name. */
  readonly keyId: string;
}

/**
 * As `cryptsetup luksFormat` has it by itself: room for the keys, and the data begins where every disk likes it. Nothing
 * of a key ever lies behind that.
 */
export const luksHeaderBytes = 16 << 20;

/** @param multipleBytes what the pool gives is a multiple of it: so the header is one, and its user has what was asked for */
export function newEncryption(type: EncryptionType, multipleBytes = granularityBytes): Encryption {
  return { type, headerBytes: Number(roundUp(BigInt(luksHeaderBytes), multipleBytes)), keyId: newKeyId() };
}

export function newKeyId(): string {
  return `key-${randomBytes(8).toString('hex')}`;
}

export const storedEncryption = z.strictObject({
  type: z.enum(encryptionTypes),
  headerBytes: z.int().nonnegative(),
  keyId: z.string(),
});

/** What the data of a volume or snapshot takes at most, with what is not its user's. */
export function storedBytes({
  encryption,
  sizeBytes,
}: {
  readonly encryption?: Encryption;
  readonly sizeBytes: bigint;
}): bigint {
  return sizeBytes + BigInt(encryption?.headerBytes ?? 0);
}
