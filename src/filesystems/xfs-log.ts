import { allOnes, crc32c } from '../kernel/block/crc32.ts';

/*
 * The log of XFS (fs/xfs/libxfs/xfs_log_format.h), big-endian: records one after the other, round and round, in blocks of
 * 512 bytes. Each block begins with the number of its round, the cycle; that of a header stands behind its magic number.
 * Where the cycle changes is the head. Before it lies the last record, and if that tells of an unmount there is nothing to
 * be replayed.
 */

export const logBlockBytes = 512;

/** Reads blocks of the log. */
export type ReadLog = (firstBlock: number, count: number) => Promise<Buffer>;

export interface LogRecord {
  readonly firstBlock: number;
  /** Header and data. */
  readonly bytes: Buffer;
}

const headerMagic = 0xfeedbabe;
const VERSION_2 = 2;
const CLIENT_LOG = 0xaa;
const UNMOUNT_TRANS = 0x20;
const uuidBytes = 16;
/** Data whose cycles a header of one block has. */
const dataPerHeaderBytes = 32_768;
/** sizeof(struct xlog_rec_header) with 64 bits. */
const headerBytes = 328;
/** The largest header, and the largest stripe unit that a record is filled up to. */
const longestUnmountBlocks = 8 + 512;

const at = {
  cycle: 4,
  version: 8,
  dataBytes: 12,
  sequenceCycle: 16,
  sequenceBlock: 20,
  checksum: 32,
  operations: 40,
  uuid: 304,
  size: 320,
} as const;

/** In the first operation of a record's data. */
const operationAt = { client: 8, flags: 9 } as const;

/**
 * The record of the unmount that the log ends with.
 * @returns undefined if there is none, or it lies across the log's end: to mount and unmount writes one further on
 */
export async function findUnmountRecord(read: ReadLog, blocks: number): Promise<LogRecord | undefined> {
  const head = await findHead(read, blocks);
  const fromBlock = Math.max(0, head - longestUnmountBlocks);
  const bytes = await read(fromBlock, head - fromBlock);
  for (let index = head - fromBlock - 1; index >= 0; index--) {
    const start = index * logBlockBytes;
    if (bytes.readUInt32BE(start) !== headerMagic) continue;
    const record = { firstBlock: fromBlock + index, bytes: bytes.subarray(start) };
    return isUnmount(record) ? record : undefined;
  }
  return undefined;
}

/** The same record of a filesystem with this UUID: the kernel replays no log, and begins none, of another one. */
export function withUuid({ bytes, firstBlock }: LogRecord, uuid: Buffer): LogRecord {
  const changed = Buffer.from(bytes);
  uuid.copy(changed, at.uuid, 0, uuidBytes);
  // mkfs writes no checksum, and the kernel then asks for none.
  if (bytes.readUInt32LE(at.checksum) !== 0) changed.writeUInt32LE(checksumOf(changed), at.checksum);
  return { firstBlock, bytes: changed };
}

/** Where the next record will be: behind all blocks of this round. */
async function findHead(read: ReadLog, blocks: number): Promise<number> {
  const cycleAt = async (block: number) => cycleOf(await read(block, 1));
  const cycle = await cycleAt(0);
  if (cycle === (await cycleAt(blocks - 1))) return blocks;
  let same = 0;
  let other = blocks - 1;
  while (other - same > 1) {
    const middle = Math.floor((same + other) / 2);
    if ((await cycleAt(middle)) === cycle) same = middle;
    else other = middle;
  }
  return other;
}

function cycleOf(block: Buffer): number {
  return block.readUInt32BE(block.readUInt32BE(0) === headerMagic ? at.cycle : 0);
}

/** Answers if the record is whole, ends where it should, and has only the one operation. */
function isUnmount({ bytes, firstBlock }: LogRecord): boolean {
  const dataStart = headerBlocksOf(bytes) * logBlockBytes;
  if (bytes.length < dataStart + logBlockBytes || bytes.length !== dataStart + bytes.readUInt32BE(at.dataBytes))
    return false;
  const isHere =
    bytes.readUInt32BE(at.sequenceCycle) === bytes.readUInt32BE(at.cycle) &&
    bytes.readUInt32BE(at.sequenceBlock) === firstBlock;
  const checksum = bytes.readUInt32LE(at.checksum);
  return (
    isHere &&
    (checksum === 0 || checksum === checksumOf(bytes)) &&
    bytes.readUInt32BE(at.operations) === 1 &&
    bytes.readUInt8(dataStart + operationAt.client) === CLIENT_LOG &&
    (bytes.readUInt8(dataStart + operationAt.flags) & UNMOUNT_TRANS) !== 0
  );
}

function headerBlocksOf(record: Buffer): number {
  const isSecond = (record.readUInt32BE(at.version) & VERSION_2) !== 0;
  return isSecond ? Math.max(1, Math.ceil(record.readUInt32BE(at.size) / dataPerHeaderBytes)) : 1;
}

/** Checksum of the header, with zeros in its own place, of the further headers that the data needs, and of the data. */
function checksumOf(record: Buffer): number {
  const dataStart = headerBlocksOf(record) * logBlockBytes;
  const used = Math.ceil(record.readUInt32BE(at.dataBytes) / dataPerHeaderBytes);
  let register = crc32c(allOnes, record.subarray(0, at.checksum));
  register = crc32c(register, Buffer.alloc(4));
  register = crc32c(register, record.subarray(at.checksum + 4, headerBytes));
  for (let header = 1; header < used; header++) {
    const start = header * logBlockBytes;
    register = crc32c(register, record.subarray(start, start + furtherHeaderBytes));
  }
  return ~crc32c(register, record.subarray(dataStart)) >>> 0;
}

/** sizeof(struct xlog_rec_ext_header). */
const furtherHeaderBytes = 260;
