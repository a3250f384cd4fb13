import type { BigIntStatsFs } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { release } from 'node:os';
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
 * lock, and others for a server.
 */
const inMemory: ReadonlySet<bigint> = new Set([filesystemType.ext4, filesystemType.tmpfs]);

/** XFS of Linux 5.14 to 5.18 waits for files that are being freed; with a quota, it may read that (fs/xfs/xfs_super.c). */
const isXfsInMemory = isAtLeast(release(), 5, 19);

function isAtLeast(version: string, major: number, minor: number): boolean {
  const [, ...found] = /^([0-9]+)\.([0-9]+)/.exec(version)?.map(Number) ?? [];
  const [foundMajor = 0, foundMinor = 0] = found;
  return foundMajor > major || (foundMajor === major && foundMinor >= minor);
}

/** Asks for the usage of the filesystem that a path lies on. */
export class UsageOfPath {
  readonly #queue: DiskQueue;
  readonly #path: string;
  readonly #hasNoQuota: boolean;
  /** The type at the last look. */
  #type: bigint | undefined;

  /** @param hasNoQuota nothing has mounted the filesystem with quotas */
  constructor(
    queue: DiskQueue,
    path: string,
    { hasNoQuota = false }: { readonly hasNoQuota?: boolean | undefined } = {},
  ) {
    this.#queue = queue;
    this.#path = path;
    this.#hasNoQuota = hasNoQuota;
  }

  /** On this thread if the last answer came from memory; else on a worker thread. */
  async read(): Promise<Usage> {
    const usage = this.#readNow() ?? (await this.#queue.run(() => statfs(this.#path, { bigint: true })));
    this.#type = usage.type;
    return usage;
  }

  #readNow(): Usage | undefined {
    if (this.#type === undefined || !this.#isInMemory(this.#type)) return undefined;
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

  #isInMemory(type: bigint): boolean {
    return inMemory.has(type) || (type === filesystemType.xfs && isXfsInMemory && this.#hasNoQuota);
  }
}
