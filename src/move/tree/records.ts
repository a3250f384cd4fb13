import { constants } from 'node:fs';
import { specialTypes } from '../../kernel/file/entry.ts';
import type { FileTime } from '../../kernel/file/path.ts';
import { DataLoss } from '../../volume/errors.ts';
import { pieceBytes } from '../copy.ts';

/*
 * A tree as it moves: records in pieces. The records of a directory's entries come before those of the directory itself, so
 * that its owner, mode and times are set last. A piece has whole records, or, after a `data` record, the bytes that it
 * announces. Nodes know by `upgradeTo` (`nodes/wire.ts`) that they send the same records.
 */

export interface DataRange {
  readonly offsetBytes: bigint;
  readonly lengthBytes: number;
}

/** Several names have one entry: its number, from 1 on; 0: it has no other name. */
interface Named {
  readonly name: Buffer;
  readonly link: number;
}

export type TreeRecord =
  /** Its entries follow. */
  | { readonly type: 'directory'; readonly name: Buffer }
  /** Its data follows, in order; the rest of it is holes. */
  | ({ readonly type: 'file'; readonly sizeBytes: bigint } & Named)
  | ({ readonly type: 'data' } & DataRange)
  /** All data of a small file, instead of those: many of them are in one piece. */
  | { readonly type: 'content'; readonly bytes: Buffer }
  | ({ readonly type: 'symlink'; readonly target: Buffer } & Named)
  | ({ readonly type: 'special'; readonly fileType: number; readonly major: number; readonly minor: number } & Named)
  /** Another name of an entry that came before. */
  | ({ readonly type: 'link' } & Named)
  /** A copy that is cut short behind it can go on here: the source knows by the digest that all before is as it was. */
  | { readonly type: 'place'; readonly digest: Buffer }
  /** The number of names that an entry of several has had in this tree; more do not come. */
  | { readonly type: 'names'; readonly link: number; readonly names: number }
  /** These three are of the entry that came last, or of the directory whose entries have ended. */
  | { readonly type: 'owner'; readonly userId: number; readonly groupId: number }
  | { readonly type: 'attribute'; readonly name: Buffer; readonly value: Buffer }
  | { readonly type: 'done'; readonly mode: number; readonly accessed: FileTime; readonly modified: FileTime }
  /** The tree is whole. */
  | { readonly type: 'end' };

const types = [
  'directory',
  'file',
  'data',
  'symlink',
  'special',
  'link',
  'owner',
  'attribute',
  'done',
  'end',
  'names',
  'place',
  'content',
] as const satisfies readonly TreeRecord['type'][];

/** Limit of the files whose data is a record. */
export const maxContentBytes = 64 << 10;
/** The longest records, extended attributes and the content of files, are shorter. */
export const longestRecordBytes = 70_000;
/** Type, length of the rest. */
const headBytes = 5;
/** No filesystem has larger files. */
const largestFile = 1n << 63n;
const longestName = 255;
const placeDigestBytes = 32;

export function encodeRecord(record: TreeRecord): Buffer {
  const body = bodyOf(record);
  return Buffer.concat([recordHead(record.type, body.length), body]);
}

/** The bytes of a record before its body. */
export function recordHead(type: TreeRecord['type'], lengthBytes: number): Buffer {
  const head = Buffer.alloc(headBytes);
  head.writeUInt8(types.indexOf(type) + 1, 0);
  head.writeUInt32BE(lengthBytes, 1);
  return head;
}

function bodyOf(record: TreeRecord): Buffer {
  switch (record.type) {
    case 'directory':
      return record.name;
    case 'file':
      return Buffer.concat([number(BigInt(record.link)), number(record.sizeBytes), record.name]);
    case 'data':
      return Buffer.concat([number(record.offsetBytes), number(BigInt(record.lengthBytes))]);
    case 'symlink':
      return Buffer.concat([
        number(BigInt(record.link)),
        number(BigInt(record.name.length)),
        record.name,
        record.target,
      ]);
    case 'special': {
      const { fileType, link, major, minor, name } = record;
      return Buffer.concat([...[link, fileType, major, minor].map((each) => number(BigInt(each))), name]);
    }
    case 'link':
      return Buffer.concat([number(BigInt(record.link)), record.name]);
    case 'owner':
      return Buffer.concat([number(BigInt(record.userId)), number(BigInt(record.groupId))]);
    case 'attribute':
      return Buffer.concat([number(BigInt(record.name.length)), record.name, record.value]);
    case 'done':
      return Buffer.concat([number(BigInt(record.mode)), time(record.accessed), time(record.modified)]);
    case 'place':
      return record.digest;
    case 'content':
      return record.bytes;
    case 'names':
      return Buffer.concat([number(BigInt(record.link)), number(BigInt(record.names))]);
    case 'end':
      return Buffer.alloc(0);
  }
}

function number(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(value);
  return bytes;
}

function time({ nanoseconds, seconds }: FileTime): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeBigInt64BE(seconds, 0);
  bytes.writeBigUInt64BE(BigInt(nanoseconds), 8);
  return bytes;
}

/** The records of a piece, each with its length there. @throws DataLoss if they are none of ours */
export function* decodeRecords(
  piece: Buffer,
): Generator<{ readonly record: TreeRecord; readonly lengthBytes: number }, void, void> {
  for (let at = 0; at < piece.length; ) {
    if (piece.length - at < headBytes) throw unreadable('it ends in a record');
    const type = types[piece.readUInt8(at) - 1];
    const until = at + headBytes + piece.readUInt32BE(at + 1);
    if (type === undefined || until > piece.length) throw unreadable('it has an unknown record, or ends in one');
    const record = decode(type, new Fields(piece.subarray(at + headBytes, until)));
    yield { record, lengthBytes: until - at };
    at = until;
  }
}

function decode(type: TreeRecord['type'], fields: Fields): TreeRecord {
  switch (type) {
    case 'directory':
      return { type, name: fields.name() };
    case 'file':
      return { type, link: fields.small(), sizeBytes: fields.size(), name: fields.name() };
    case 'data': {
      const range = { type, offsetBytes: fields.size(), lengthBytes: fields.small() };
      if (range.lengthBytes === 0 || BigInt(range.lengthBytes) > pieceBytes) throw unreadable('its data is too long');
      return fields.end(range);
    }
    case 'symlink': {
      const link = fields.small();
      const name = fields.name(fields.small());
      const target = fields.rest();
      if (target.length === 0 || target.includes(0)) throw unreadable('a symlink in it has no target');
      return { type, link, name, target };
    }
    case 'special': {
      const [link, fileType, major, minor] = [fields.small(), fields.small(), fields.small(), fields.small()];
      if (!specialTypes.has(fileType)) throw unreadable('an entry of it has an unknown type');
      return { type, link, fileType, major, minor, name: fields.name() };
    }
    case 'link':
      return { type, link: fields.small(), name: fields.name() };
    case 'owner':
      return fields.end({ type, userId: fields.small(), groupId: fields.small() });
    case 'attribute': {
      const name = fields.take(fields.small());
      const value = fields.rest();
      if (!isAttributeName(name)) throw unreadable('an extended attribute in it has an unknown name');
      return { type, name, value };
    }
    case 'done': {
      const mode = fields.small() & ~constants.S_IFMT;
      if (mode > 0o7777) throw unreadable('a mode in it has unknown bits');
      return fields.end({ type, mode, accessed: fields.time(), modified: fields.time() });
    }
    case 'content': {
      const bytes = fields.rest();
      if (bytes.length === 0 || bytes.length > maxContentBytes) throw unreadable('its data is too long, or none');
      return { type, bytes };
    }
    case 'place':
      return fields.end({ type, digest: fields.take(placeDigestBytes) });
    case 'names':
      return fields.end({ type, link: fields.small(), names: fields.small() });
    case 'end':
      return fields.end({ type });
  }
}

/** The namespaces of xattr(7); of `system`, the ACLs alone are a file's own. */
const attributeName = /^((user|trusted|security)\..|system\.posix_acl_(access|default)$)/s;
/** XFS shows its ACLs again under these; that of EVM is the kernel's. */
const derivedName = /^(trusted\.SGI_|security\.evm$)/;

/** True if an extended attribute moves with its entry. */
export function isAttributeName(name: Buffer): boolean {
  const text = name.toString('latin1');
  return attributeName.test(text) && !derivedName.test(text) && !text.includes('\0') && name.length <= longestName;
}

class Fields {
  #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  take(length: number): Buffer {
    if (length > this.#bytes.length) throw unreadable('a record of it is too short');
    const taken = this.#bytes.subarray(0, length);
    this.#bytes = this.#bytes.subarray(length);
    return taken;
  }

  rest(): Buffer {
    return this.take(this.#bytes.length);
  }

  /** One name in a directory, which leads nowhere else. */
  name(length = this.#bytes.length): Buffer {
    const name = this.take(length);
    const text = name.toString('latin1');
    if (length === 0 || length > longestName || text === '.' || text === '..' || /[/\0]/.test(text)) {
      throw unreadable('a name in it is no name of one entry');
    }
    return name;
  }

  size(): bigint {
    const value = this.take(8).readBigUInt64BE();
    if (value >= largestFile) throw unreadable('a size in it is too large');
    return value;
  }

  small(): number {
    const value = this.take(8).readBigUInt64BE();
    if (value > 0xffff_ffffn) throw unreadable('a number in it is too large');
    return Number(value);
  }

  time(): FileTime {
    const bytes = this.take(16);
    const nanoseconds = bytes.readBigUInt64BE(8);
    if (nanoseconds >= 1_000_000_000n) throw unreadable('a time in it is none');
    return { seconds: bytes.readBigInt64BE(0), nanoseconds: Number(nanoseconds) };
  }

  end<T>(record: T): T {
    if (this.#bytes.length > 0) throw unreadable('a record of it is too long');
    return record;
  }
}

export function unreadable(why: string): DataLoss {
  return new DataLoss(`The tree that was sent cannot be read: ${why}. Nothing was moved.`);
}
