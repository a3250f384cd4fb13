import type { BigIntStatsFs } from 'node:fs';
import { statfs } from 'node:fs/promises';
import type { DiskQueue } from '../call/disk-queue.ts';
import { invokeNow, type Lent, libcCall } from '../call/libc.ts';
import { filesystemType } from './filesystem-type.ts';
import { openIfCached } from './path.ts';

const fstatfsCall = libcCall<readonly [Lent, Uint8Array]>('int fstatfs(int fd, void *usage)');

/** Size of struct statfs, which is the same on x86_64 and arm64. */
const structBytes = 120;

/** Blocks and inodes of a filesystem, as statfs(2) has them. */
export type Usage = Pick<BigIntStatsFs, 'bavail' | 'bfree' | 'blocks' | 'bsize' | 'ffree' | 'files' | 'type'>;

/**
 * Types of filesystems that add up counters in memory: ext4 and tmpfs (fs/ext4/super.c, mm/shmem.c). btrfs waits for a
 * lock, XFS of Linux 5.14 to 5.18 for files being freed, and others for a server.
 */
const inMemory: ReadonlySet<bigint> = new Set([filesystemType.ext4, filesystemType.tmpfs]);

/** Asks for the usage of the filesystem that a path lies on. */
export class UsageOfPath {
  readonly #queue: DiskQueue;
  readonly #path: string;
  /** The type at the last look. */
  #type: bigint | undefined;

  constructor(queue: DiskQueue, path: string) {
    this.#queue = queue;
    this.#path = path;
  }

  /** On this thread if the last answer came from memory; else on a worker thread. */
  async read(): Promise<Usage> {
    const usage = this.#readNow() ?? (await this.#queue.run(() => statfs(this.#path, { bigint: true })));
    this.#type = usage.type;
    return usage;
  }

  #readNow(): Usage | undefined {
    if (this.#type === undefined || !inMemory.has(this.#type)) return undefined;
    if (this.#queue.closedFor !== undefined) throw this.#queue.closedFor;
    const file = openIfCached(this.#path);
    if (file === undefined) return undefined;
    const struct = Buffer.alloc(structBytes);
    try {
      invokeNow(fstatfsCall, [file, struct], this.#path);
    } finally {
      file.closeNow();
    }
    const field = (index: number) => struct.readBigUInt64LE(8 * index);
    return {
      ...{ type: field(0), bsize: field(1), blocks: field(2), bfree: field(3) },
      ...{ bavail: field(4), files: field(5), ffree: field(6) },
    };
  }
}
