/*
 * The wire of network block devices, as much of it as QEMU speaks to a server without extras:
 * https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md
 */

const optionMagic = 0x49484156454f5054n; // IHAVEOPT
const greetingMagic = 0x4e42444d41474943n; // NBDMAGIC
const optionReplyMagic = 0x0003e889045565a9n;
const requestMagic = 0x25609513;
const replyMagic = 0x67446698;

export const commands = { read: 0, write: 1, disconnect: 2, flush: 3, writeZeroes: 6 } as const;
export const options = { abort: 2, info: 6, go: 7 } as const;
export const optionReplies = { acknowledged: 1, info: 3, unsupported: 0x8000_0001 } as const;
/** The disk has a cache that can be flushed, and past which a single write can be forced; it can write zeros by itself. */
const transmissionFlags = 1 | 4 | 8 | 64;
const forceUnitAccess = 1;

export const optionHeadBytes = 16;
export const requestHeadBytes = 28;

export interface NbdRequest {
  readonly command: number;
  readonly isForced: boolean;
  readonly cookie: bigint;
  readonly offsetBytes: number;
  readonly lengthBytes: number;
}

/** What the server says first: fixed newstyle, without a tail of zeros. */
export function encodeGreeting(): Buffer {
  const greeting = Buffer.alloc(18);
  greeting.writeBigUInt64BE(greetingMagic, 0);
  greeting.writeBigUInt64BE(optionMagic, 8);
  greeting.writeUInt16BE(3, 16);
  return greeting;
}

export function decodeOption(head: Buffer): { readonly option: number; readonly lengthBytes: number } {
  if (head.readBigUInt64BE(0) !== optionMagic) throw new RangeError('not an option of NBD');
  return { option: head.readUInt32BE(8), lengthBytes: head.readUInt32BE(12) };
}

export function encodeOptionReply(option: number, reply: number, data: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(20);
  head.writeBigUInt64BE(optionReplyMagic, 0);
  head.writeUInt32BE(option, 8);
  head.writeUInt32BE(reply, 12);
  head.writeUInt32BE(data.length, 16);
  return Buffer.concat([head, data]);
}

/** NBD_INFO_EXPORT. */
export function encodeExport(sizeBytes: number): Buffer {
  const info = Buffer.alloc(12);
  info.writeUInt16BE(0, 0);
  info.writeBigUInt64BE(BigInt(sizeBytes), 2);
  info.writeUInt16BE(transmissionFlags, 10);
  return info;
}

export function decodeRequest(head: Buffer): NbdRequest {
  if (head.readUInt32BE(0) !== requestMagic) throw new RangeError('not a request of NBD');
  return {
    isForced: (head.readUInt16BE(4) & forceUnitAccess) !== 0,
    command: head.readUInt16BE(6),
    cookie: head.readBigUInt64BE(8),
    offsetBytes: Number(head.readBigUInt64BE(16)),
    lengthBytes: head.readUInt32BE(24),
  };
}

/** `error`: a number of errno(3), or 0. */
export function encodeReply(cookie: bigint, error: number): Buffer {
  const head = Buffer.alloc(16);
  head.writeUInt32BE(replyMagic, 0);
  head.writeUInt32BE(error, 4);
  head.writeBigUInt64BE(cookie, 8);
  return head;
}
