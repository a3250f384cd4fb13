import { constants } from 'node:fs';
import { type Descriptor, openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { attributesOf, readAttribute, targetOf } from '../../kernel/file/entry.ts';
import { readFully } from '../../kernel/file/file.ts';
import { type EntryStatus, entryStatusOf, type FileTime } from '../../kernel/file/path.ts';
import { openEntry, type TreeName } from '../../kernel/file/tree.ts';
import { FailedPrecondition, Unavailable } from '../../volume/errors.ts';
import { shortPath } from '../../volume/short-path.ts';
import { isAttributeName, maxContentBytes, type TreeRecord } from './records.ts';

/** An entry, and all of it that is read before its turn. */
export interface Seen {
  readonly status: EntryStatus;
  /** Its last records; undefined: they come later, as they are too long, or those of a directory. */
  readonly attributes: readonly TreeRecord[] | undefined;
  readonly target: Buffer | undefined;
  /** It is a file of one piece, without holes. */
  readonly isSmall: boolean;
  /** All data of a small file; undefined: it is not read yet. */
  readonly data: Buffer<ArrayBuffer> | undefined;
}

/** The largest files that are read with all others that they have. */
const smallBytes = BigInt(maxContentBytes);
/** The length of all attributes that are kept until the turn of their entry: XFS lets one have a gigabyte of them. */
const keptAttributesBytes = 65_536;

/** Reading changes no time of the source. */
export const readFlags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOATIME;

/** Looks at an entry, and reads it if it is a small file. @throws Unavailable, FailedPrecondition */
export async function seeEntry(queue: DiskQueue, parent: Descriptor, name: TreeName, isRead: boolean): Promise<Seen> {
  await using entry = await openEntry(queue, parent, name).catch((error) => {
    if (isErrno(error, 'ENOENT')) throw changedMeanwhile(`${parent.path}/${name.text}`);
    throw isErrno(error, 'EXDEV') ? mountedInside(parent, name) : error;
  });
  const status = entryStatusOf(entry);
  const { allocatedBytes, kind, links, sizeBytes } = status;
  if (kind === 'directory')
    return { status, attributes: undefined, target: undefined, isSmall: false, data: undefined };
  const attributes = await shortAttributes(queue, entry);
  const target = kind === 'symlink' ? await targetOf(queue, entry) : undefined;
  // Without holes, and once in the tree.
  const isSmall = kind === 'file' && sizeBytes > 0n && sizeBytes <= smallBytes && allocatedBytes >= sizeBytes;
  const seen = { status, attributes, target, isSmall };
  if (isSmall && links === 1 && isRead) return { ...seen, data: await readSmall(queue, entry, status) };
  requireUnchanged(entry, status);
  return { ...seen, data: undefined };
}

export async function readSmall(
  queue: DiskQueue,
  entry: Descriptor,
  status: EntryStatus,
): Promise<Buffer<ArrayBuffer>> {
  await using file = await openFile(queue, entry, readFlags);
  const data = Buffer.alloc(Number(status.sizeBytes));
  await readWhole(queue, file, data, 0n);
  requireUnchanged(file, status);
  return data;
}

/** The last records of an entry, each read when it is asked for. */
export async function* attributesIn(queue: DiskQueue, entry: Descriptor): AsyncGenerator<TreeRecord, void, void> {
  const { accessed, groupId, mode, modified, userId } = entryStatusOf(entry);
  yield { type: 'owner', userId, groupId };
  for (const name of await attributesOf(queue, entry)) {
    if (!isAttributeName(name)) continue;
    yield { type: 'attribute', name, value: await readAttribute(queue, entry, name) };
  }
  yield { type: 'done', mode: mode & ~constants.S_IFMT, accessed, modified };
}

async function shortAttributes(queue: DiskQueue, entry: Descriptor): Promise<TreeRecord[] | undefined> {
  const records: TreeRecord[] = [];
  let bytes = 0;
  for await (const record of attributesIn(queue, entry)) {
    if (record.type === 'attribute') bytes += record.value.length;
    if (bytes > keptAttributesBytes) return undefined;
    records.push(record);
  }
  return records;
}

/**
 * A mount in the volume keeps it from being fenced; a process that has only a file open does not, and writes on.
 * @throws Unavailable
 */
export function requireUnchanged(entry: Descriptor, before: EntryStatus): void {
  const now = entryStatusOf(entry);
  const isSame =
    now.inode === before.inode &&
    now.sizeBytes === before.sizeBytes &&
    isSameTime(now.changed, before.changed) &&
    isSameTime(now.modified, before.modified);
  if (!isSame) throw changedMeanwhile(entry.path);
}

function isSameTime(a: FileTime, b: FileTime): boolean {
  return a.seconds === b.seconds && a.nanoseconds === b.nanoseconds;
}

export function changedMeanwhile(path: string): Unavailable {
  return new Unavailable(
    `${shortPath(path)} has changed while the volume was copied, which begins again: end what writes there (see lsof).`,
  );
}

/** @throws Unavailable if the file has become shorter */
export async function readWhole(
  queue: DiskQueue,
  file: Descriptor,
  memory: Buffer,
  offsetBytes: bigint,
): Promise<void> {
  const length = await readFully(queue, file, memory, offsetBytes);
  if (length < memory.length) throw changedMeanwhile(file.path);
}

function mountedInside(parent: Descriptor, { text }: TreeName): FailedPrecondition {
  return new FailedPrecondition(
    `The volume cannot move: something is mounted at ${shortPath(`${parent.path}/${text}`)}. Unmount it first.`,
  );
}
