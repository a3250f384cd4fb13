import { createHash } from 'node:crypto';

/** `vol-` and 26 lower-case base32 characters (130 bits of SHA-256). Only `volumeIdFor` and `parseVolumeId` make one. */
export type VolumeId = string & { readonly __kind: 'VolumeId' };

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
const idCharacters = 26;
const volumeIdPattern = /^vol-[a-z2-7]{26}$/;

/**
 * The id that a name has on this node and pool. Derived, not drawn, so that a replay of CreateVolume finds what the
 * first try made (T03); hashed, so that a caller's name never becomes a path or an argument (L08).
 */
export function volumeIdFor(nodeId: string, poolName: string, volumeName: string): VolumeId {
  const hash = createHash('sha256');
  for (const part of [nodeId, poolName, volumeName]) {
    // A length before each part keeps ('a', 'bc') and ('ab', 'c') apart.
    hash.update(`${Buffer.byteLength(part)}:`).update(part);
  }
  return `vol-${base32(hash.digest())}` as VolumeId;
}

/** The id in `text`, or undefined if it has not the exact shape of one: to a caller that is "no such volume" (DV02). */
export function parseVolumeId(text: string): VolumeId | undefined {
  return volumeIdPattern.test(text) ? (text as VolumeId) : undefined;
}

function base32(bytes: Uint8Array): string {
  let text = '';
  let bits = 0;
  let bitCount = 0;
  for (const byte of bytes) {
    bits = (bits << 8) | byte;
    bitCount += 8;
    while (bitCount >= 5 && text.length < idCharacters) {
      bitCount -= 5;
      text += alphabet.charAt((bits >> bitCount) & 31);
    }
    bits &= (1 << bitCount) - 1;
  }
  return text;
}
