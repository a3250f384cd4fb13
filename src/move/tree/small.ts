import { Descriptor } from '../../kernel/call/descriptor.ts';
import { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { errorOut, isThreadFor, type SentError, serveJobs, Thread } from '../../kernel/call/thread.ts';
import { changeMode, changeOwner, changeTimes, treeName } from '../../kernel/file/entry.ts';
import { resizeFile, writeAt } from '../../kernel/file/file.ts';
import { makeFileIn } from '../../kernel/file/tree.ts';
import { PieceMemory } from '../piece-memory.ts';
import { compareFile, type Written } from './compare.ts';
import { recordsDigest } from './digest.ts';
import { keepAttribute, notKept } from './keep.ts';
import { maxContentBytes, type TreeRecord } from './records.ts';
import { type Seen, seeEntry } from './see.ts';

/*
 * Small files, many in one job of another thread (`kernel/call/thread.ts`): each takes some ten calls. Memory that is
 * sent to a thread is copied with all of its ArrayBuffer: names and contents have one each.
 */

const threadName = 'small files';

export type Bytes = Uint8Array<ArrayBuffer>;
type RecordOf<Type extends TreeRecord['type']> = Extract<TreeRecord, { type: Type }>;

/** A file, and all that it has. */
export interface SmallFile {
  readonly name: Bytes;
  readonly sizeBytes: bigint;
  /** undefined: all of it is a hole. */
  readonly content: Bytes | undefined;
  readonly owner: Omit<RecordOf<'owner'>, 'type'> | undefined;
  readonly attributes: readonly { readonly name: Bytes; readonly value: Bytes }[];
  readonly done: Omit<RecordOf<'done'>, 'type'>;
}

/** A directory that is open in the main thread, which keeps it open. */
interface InDirectory {
  readonly fd: number;
  readonly path: string;
}

/**
 * A job of a thread in a directory. The directory stays open until the job has ended, even if its caller has left, as its pool
 * is given up: the number would be that of another directory meanwhile, and the thread would work in there.
 */
export function inDirectory<T>(
  queue: DiskQueue,
  directory: Descriptor,
  job: (where: InDirectory) => Promise<T>,
): Promise<T> {
  const work = () => directory.during((_path, fd) => job({ fd, path: directory.path }));
  // Once for its wait for a place, and once for the job.
  return directory.during(() => queue.run(work));
}

/** An entry that was looked at, or the reason why not. */
export type SeenReply = { readonly seen: Seen } | { readonly error: SentError };

export type SmallFiles = Thread<typeof jobs>;

export function smallFiles(): SmallFiles {
  return new Thread(import.meta.url, threadName);
}

const queue = new DiskQueue(threadName, 1);
/** The files with content that were made. They are open until they were compared. */
const made = new Map<number, Written>();
let last = 0;

const jobs = {
  async see({
    isRead,
    names,
    ...directory
  }: InDirectory & { readonly names: readonly Bytes[]; readonly isRead: boolean }) {
    const parent = borrowed(directory);
    const replies: SeenReply[] = [];
    for (const bytes of names) {
      const name = treeName(bufferOf(bytes));
      replies.push(
        await seeEntry(queue, parent, name, isRead).then(
          (seen) => ({ seen: apart(seen) }),
          (error: unknown) => ({ error: errorOut(error) }),
        ),
      );
    }
    return replies;
  },

  /** @returns the numbers of those with content */
  async make({ files, ...directory }: InDirectory & { readonly files: readonly SmallFile[] }) {
    const parent = borrowed(directory);
    const numbers: number[] = [];
    for (const each of files) {
      const number = await make(parent, each);
      if (number !== undefined) numbers.push(number);
    }
    return numbers;
  },

  /** @throws DataLoss if the disk has other bytes than were written */
  async compare({ numbers }: { readonly numbers: readonly number[] }) {
    const memory = new PieceMemory(1, maxContentBytes);
    for (const number of numbers) {
      const written = made.get(number);
      made.delete(number);
      await using _file = written?.file;
      if (written !== undefined) await compareFile(queue, written, memory);
    }
  },
};

async function make(
  parent: Descriptor,
  { attributes, content, done, name, owner, sizeBytes }: SmallFile,
): Promise<number | undefined> {
  const file = await makeFileIn(queue, parent, treeName(bufferOf(name))).catch((error) => {
    throw notKept(`${parent.path}/${bufferOf(name).toString('utf8')}`, error);
  });
  const number = ++last;
  const ranges: Written['ranges'] = [];
  made.set(number, { file, ranges });
  if (content !== undefined) {
    await writeAt(queue, file, bufferOf(content), 0n);
    ranges.push({ offsetBytes: 0n, lengthBytes: content.length, digest: recordsDigest(bufferOf(content)) });
  } else if (sizeBytes > 0n) await resizeFile(queue, file, sizeBytes);
  if (owner !== undefined) await changeOwner(queue, file, owner);
  for (const each of attributes) {
    await keepAttribute(queue, file, { name: bufferOf(each.name), value: bufferOf(each.value) });
  }
  await changeMode(queue, file, done.mode);
  await changeTimes(queue, file, done);
  if (content !== undefined) return number;
  made.delete(number);
  await file[Symbol.asyncDispose]();
  return undefined;
}

/** Nothing here closes it: the number is the main thread's. */
function borrowed({ fd, path }: InDirectory): Descriptor {
  return new Descriptor(fd, path, undefined);
}

/** All memory of it as it can be sent. */
function apart({ attributes, target, ...seen }: Seen): Seen {
  return { ...seen, attributes: attributes?.map((each) => withMemory(each, alone)), target: target && alone(target) };
}

/** An entry that a thread has looked at: its memory comes as plain bytes. */
export function seenIn({ attributes, data, target, ...seen }: Seen): Seen {
  return {
    ...{ ...seen, attributes: attributes?.map((each) => withMemory(each, bufferOf)) },
    ...{ target: target && bufferOf(target), data: data && bufferOf(data) },
  };
}

function withMemory(record: TreeRecord, change: (bytes: Buffer) => Buffer): TreeRecord {
  if (record.type !== 'attribute') return record;
  return { ...record, name: change(record.name), value: change(record.value) };
}

function alone(bytes: Buffer): Buffer {
  return bufferOf(bytesOf(bytes));
}

/** A copy that has its ArrayBuffer alone. */
export function bytesOf(bytes: Uint8Array): Bytes {
  return new Uint8Array(bytes);
}

function bufferOf(bytes: Uint8Array): Buffer<ArrayBuffer> {
  return Buffer.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length);
}

if (isThreadFor(threadName)) {
  serveJobs(jobs, async () => {
    for (const { file } of made.values()) await file[Symbol.asyncDispose]();
  });
}
