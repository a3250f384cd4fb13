import type { Content } from '../../kernel/block/blkid.ts';
import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { readAtMost } from '../../kernel/file/file.ts';

/** The part of a disk's beginning that must be zeros for it to be blank, besides that it has no signature anywhere. */
export const beginningBytes = 1 << 20;

export function readBeginning(queue: DiskQueue, device: Descriptor): Promise<Buffer> {
  return readAtMost(queue, device, { lengthBytes: beginningBytes, offsetBytes: 0 });
}

/** The next step with a disk for a pool. */
export type Verdict =
  /** It is blank, or has nothing but a part of what our own mkfs wrote: make the filesystem. */
  | { readonly kind: 'format' }
  /** Our own mkfs came to its end, or nearly: it says so before it has flushed all. Its log tells whether it was used. */
  | { readonly kind: 'finished' }
  /** A filesystem of the kind that a pool has. */
  | { readonly kind: 'mount' }
  | { readonly kind: 'foreign'; readonly what: string };

export interface LocationContent {
  /** The signatures that libblkid finds on it. */
  readonly content: Content;
  /** Its first `beginningBytes`. */
  readonly beginning: Buffer;
  /** The UUID for mkfs, noted when a format of this very disk was begun. */
  readonly begunUuid: string | undefined;
}

/** Decides strictly: content that cannot be shown to be blank or our own is foreign data. */
export function judgeLocation({ beginning, begunUuid, content }: LocationContent): Verdict {
  if (content.kind === 'blank' && isZeros(beginning)) return { kind: 'format' };
  if (begunUuid !== undefined && isOwnFormat(content, beginning, begunUuid)) {
    return { kind: isMarkedComplete(beginning) ? 'finished' : 'format' };
  }
  switch (content.kind) {
    // No signature is not yet blank: a database on a raw disk has none either.
    case 'blank':
      return { kind: 'foreign', what: 'data of an unknown kind' };
    case 'ambivalent':
      return { kind: 'foreign', what: 'signatures of several kinds' };
    case 'filesystem':
      if (content.type === 'xfs') return { kind: 'mount' };
      return { kind: 'foreign', what: `${content.kind} (${content.type})` };
    default:
      return { kind: 'foreign', what: `${content.kind} (${content.type})` };
  }
}

/** Every structure of XFS with checksums has the filesystem's UUID in it, so each block that mkfs.xfs writes has. */
const blockBytes = 4096;
const xfsMagic = Buffer.from('XFSB');
const uuidAt = 32;
const uuidBytes = 16;
/** sb_inprogress: mkfs.xfs writes 1 first, and 0 last (xfs_format.h). */
const inProgressAt = 126;

/** True if there is nothing but zeros and blocks of the filesystem with this UUID. */
export function isOwnFormat(content: Content, beginning: Buffer, uuid: string): boolean {
  const own = Buffer.from(uuid.replaceAll('-', ''), 'hex');
  const isOwnSignature = content.kind === 'filesystem' && content.type === 'xfs' && content.uuid === uuid;
  if (content.kind !== 'blank' && !isOwnSignature) return false;
  if (hasSuperblock(beginning) && !beginning.subarray(uuidAt, uuidAt + uuidBytes).equals(own)) return false;
  for (let at = 0; at < beginning.length; at += blockBytes) {
    const block = beginning.subarray(at, at + blockBytes);
    if (!block.includes(own) && !isZeros(block)) return false;
  }
  return true;
}

/** Where the log of the filesystem is that mkfs.xfs has begun to make; undefined: not on this disk. All of struct xfs_dsb. */
export function logPlace(
  beginning: Buffer,
): { readonly offsetBytes: bigint; readonly lengthBytes: bigint } | undefined {
  const start = beginning.readBigUInt64BE(48);
  if (start === 0n) return undefined;
  const blockSizeBytes = BigInt(beginning.readUInt32BE(4));
  const groupBlocks = BigInt(beginning.readUInt32BE(84));
  const groupBits = BigInt(beginning.readUInt8(124));
  const block = (start >> groupBits) * groupBlocks + (start & ((1n << groupBits) - 1n));
  return {
    offsetBytes: block * blockSizeBytes,
    lengthBytes: BigInt(beginning.readUInt32BE(96)) * blockSizeBytes,
  };
}

/** h_magicno of struct xlog_rec_header. */
const recordMagic = 0xfeedbabe;
const logBlockBytes = 512;

/**
 * True if a log with this beginning is as mkfs.xfs makes it: zeros, and perhaps one record. Changes of a mounted
 * filesystem come behind that, at the latest when it is unmounted.
 */
export function isFreshLog(log: Buffer): boolean {
  if (isZeros(log)) return true;
  if (log.readUInt32BE(0) !== recordMagic) return false;
  // h_len, without the header.
  return isZeros(log.subarray(logBlockBytes + Math.ceil(log.readUInt32BE(12) / logBlockBytes) * logBlockBytes));
}

function isMarkedComplete(beginning: Buffer): boolean {
  return hasSuperblock(beginning) && beginning[inProgressAt] === 0;
}

function hasSuperblock(beginning: Buffer): boolean {
  return beginning.subarray(0, xfsMagic.length).equals(xfsMagic);
}

export function isZeros(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0);
}
