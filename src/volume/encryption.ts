import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { InvalidArgument } from './errors.ts';
import { granularityBytes, roundUp } from './size.ts';

export const encryptionTypes = ['luks2'] as const;
export type EncryptionType = (typeof encryptionTypes)[number];

/** @param what a word for the text in a mistake: `Parameter` @throws InvalidArgument */
export function parseEncryption(what: string, text: string | undefined): EncryptionType | undefined {
  if (text === undefined || text === 'none') return undefined;
  const type = encryptionTypes.find((known) => known === text);
  if (type !== undefined) return type;
  throw new InvalidArgument(
    `${what} encryption is ${JSON.stringify(text)}; it can be ${encryptionTypes.join(', ')} or none.`,
  );
}

/** The encryption of a volume's data. The name of the key is all that it says about the key. */
export interface Encryption {
  readonly type: EncryptionType;
  /** Offset of the user's data. It is added to the volume's size and never changes. */
  readonly headerBytes: number;
  /** Random name of the key that opens the data: a clone needs the same key, and a new key gets a new name. */
  readonly keyId: string;
}

/**
 * The default of `cryptsetup luksFormat`: room for the keys, and data aligned for every disk. No key material lies
 * behind it.
 */
export const luksHeaderBytes = 16 << 20;

/**
 * @param multipleBytes granularity of the pool: the header is rounded up to it, so that the user gets the requested
 * size
 */
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

/** The largest space that the data of a volume or snapshot can take, including the header of its encryption. */
export function storedBytes({
  encryption,
  sizeBytes,
}: {
  readonly encryption?: Encryption;
  readonly sizeBytes: bigint;
}): bigint {
  return sizeBytes + BigInt(encryption?.headerBytes ?? 0);
}
