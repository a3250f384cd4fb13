import { basename } from 'node:path';
import koffi from 'koffi';
import type { DiskQueue } from '../call/disk-queue.ts';
import { KernelError } from '../call/errno.ts';
import { callOnWorker, libcCall } from '../call/libc.ts';
import type { DeviceNumber } from '../device.ts';

/** One line of /proc/self/mountinfo (proc_pid_mountinfo(5)). */
export interface Mount {
  readonly id: bigint;
  readonly parentId: bigint;
  /** The filesystem's device; for a filesystem on a loop device, the loop device. */
  readonly device: DeviceNumber;
  /** The part of the filesystem that is mounted: `/`, or the directory or file that was bind-mounted. */
  readonly root: string;
  readonly target: string;
  /** The options of this mount: `ro`, `nosuid`, … */
  readonly options: readonly string[];
  readonly fsType: string;
  readonly source: string;
  /** The options of the filesystem, for all its mounts. */
  readonly superOptions: readonly string[];
  /** A mount that is both shared and a slave counts as shared. */
  readonly propagation: 'shared' | 'private' | 'slave' | 'unbindable';
  /** Mounts with the same number propagate mounts below them to each other. */
  readonly peerGroup: number | undefined;
  /** The peer group from which this mount receives mounts. */
  readonly masterGroup: number | undefined;
}

/**
 * Answers if this is a device's node, mounted on a file. Its root is the node: `/loop3` where /dev is a separate
 * filesystem, `/dev/loop3` where /dev is a directory of another one; with `//deleted` behind it if the node in /dev was
 * made again.
 */
export function isNodeOf({ root }: Pick<Mount, 'root'>, devicePath: string): boolean {
  return root !== '/' && basename(root.replace(/\/\/deleted$/, '')) === basename(devicePath);
}

const path = '/proc/self/mountinfo';
const fopenCall = libcCall<readonly [string, string]>('void *fopen(const char *path, const char *mode)');
const freadCall = libcCall<readonly [Uint8Array, number, number, bigint]>(
  'size_t fread(void *memory, size_t size, size_t count, void *stream)',
);
const ferrorCall = libcCall<readonly [bigint]>('int ferror(void *stream)');
const fcloseCall = libcCall<readonly [bigint]>('int fclose(void *stream)');

/** The memory of the last read, so that one call is enough for the next; undefined while a read has it. */
let spareMemory: Buffer | undefined;
const firstBytes = 32 * 1024;

/**
 * The mounts that this process sees, later ones over earlier ones. read(2) gives a page of this file at a time;
 * fread(3) puts them together in one visit to a worker thread.
 */
export async function readMountTable(queue: DiskQueue): Promise<Mount[]> {
  // One piece of work: the stream is closed in any case, and only after it has been read.
  return parseMountTable(await queue.run(readOnWorker));
}

/** The uppermost mount at a path without symbolic links. */
export async function mountAt(queue: DiskQueue, path: string): Promise<Mount | undefined> {
  return (await readMountTable(queue)).findLast(({ target }) => target === path);
}

async function readOnWorker(): Promise<string> {
  const stream: unknown = fopenCall.native(path, 're');
  if (typeof stream !== 'bigint') throw new KernelError({ syscall: 'open', errno: koffi.errno(), path });
  try {
    let memory = spareMemory ?? Buffer.allocUnsafeSlow(firstBytes);
    spareMemory = undefined;
    let bytes = 0;
    for (;;) {
      const rest = memory.subarray(bytes);
      const { result, errno } = await callOnWorker(freadCall, [rest, 1, rest.length, stream]);
      if (typeof result !== 'number') throw new TypeError('fread returned no number');
      if (ferrorCall.native(stream) !== 0) throw new KernelError({ syscall: 'read', errno, path });
      bytes += result;
      if (bytes < memory.length) break;
      memory = Buffer.concat([memory], memory.length * 2);
    }
    spareMemory = memory;
    return memory.toString('utf8', 0, bytes);
  } finally {
    fcloseCall.native(stream);
  }
}

/** Parses the text of mountinfo. Lines with an unknown format are left out. */
export function parseMountTable(text: string): Mount[] {
  return text
    .split('\n')
    .filter((line) => line.includes(separator))
    .map((line) => new MountLine(line));
}

/** Parses those lines of a table alone that have a text in them, which is one of ASCII that needs no escaping. */
export function parseMountsWith(table: Buffer, text: string): Mount[] {
  const mounts: Mount[] = [];
  for (let at = table.indexOf(text); at !== -1; ) {
    const start = table.lastIndexOf('\n', at) + 1;
    const next = table.indexOf('\n', at);
    const end = next === -1 ? table.length : next;
    mounts.push(...parseMountTable(table.toString('utf8', start, end)));
    at = table.indexOf(text, end);
  }
  return mounts;
}

/** Ends the optional fields. Spaces in a path are escaped. */
const separator = ' - ';

/**
 * A line that is parsed on demand: a node has thousands of mounts, and a search reads one field of most. The fields are
 * getters, so a copy made by spreading would have none.
 */
class MountLine implements Mount {
  readonly #line: string;
  #after: readonly string[] | undefined;
  /** A search for many devices asks each line for it as many times. */
  #device: DeviceNumber | undefined;

  constructor(line: string) {
    this.#line = line;
  }

  get id(): bigint {
    return BigInt(this.#fieldBefore(0));
  }

  get parentId(): bigint {
    return BigInt(this.#fieldBefore(1));
  }

  get device(): DeviceNumber {
    if (this.#device === undefined) {
      const [major, minor] = this.#fieldBefore(2).split(':');
      this.#device = { major: Number(major), minor: Number(minor) };
    }
    return this.#device;
  }

  get root(): string {
    return unescapeField(this.#fieldBefore(3));
  }

  get target(): string {
    return unescapeField(this.#fieldBefore(4));
  }

  get options(): readonly string[] {
    return this.#fieldBefore(5).split(',');
  }

  get fsType(): string {
    return unescapeField(this.#fieldAfter(0));
  }

  get source(): string {
    return unescapeField(this.#fieldAfter(1));
  }

  get superOptions(): readonly string[] {
    return this.#fieldAfter(2).split(',').map(unescapeField);
  }

  get propagation(): Mount['propagation'] {
    if (this.peerGroup !== undefined) return 'shared';
    if (this.masterGroup !== undefined) return 'slave';
    return this.#optionalFields().includes('unbindable') ? 'unbindable' : 'private';
  }

  get peerGroup(): number | undefined {
    return this.#group('shared:');
  }

  get masterGroup(): number | undefined {
    return this.#group('master:');
  }

  #group(tag: string): number | undefined {
    const field = this.#optionalFields().find((text) => text.startsWith(tag));
    return field === undefined ? undefined : Number(field.slice(tag.length));
  }

  #optionalFields(): readonly string[] {
    return this.#line.slice(0, this.#line.indexOf(separator)).split(' ').slice(6);
  }

  /** A search needs the first fields of all lines, so only those are parsed. */
  #fieldBefore(index: number): string {
    let start = 0;
    for (let field = 0; field < index; field++) start = this.#line.indexOf(' ', start) + 1;
    return this.#line.slice(start, this.#line.indexOf(' ', start));
  }

  #fieldAfter(index: number): string {
    this.#after ??= this.#line.slice(this.#line.indexOf(separator) + separator.length).split(' ');
    return this.#after[index] ?? '';
  }
}

/**
 * The kernel writes each byte of a space, tab, newline, backslash and a few more as a backslash and three octal digits.
 */
function unescapeField(field: string): string {
  if (!field.includes('\\')) return field;
  const bytes = field.replace(/[^\0-\x7f]+/gu, (characters) => Buffer.from(characters).toString('latin1'));
  const plain = bytes.replace(/\\([0-3][0-7]{2})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
  return Buffer.from(plain, 'latin1').toString('utf8');
}
