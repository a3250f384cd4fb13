import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { invoke, type Lent, systemCall } from '../call/libc.ts';

/** quotactl(2): the commands that came with XFS, which the kernel translates for ext4 (fs/quota/quota.c). */
const commands = {
  Q_XGETQUOTA: 0x5803,
  Q_XSETQLIM: 0x5804,
  Q_XGETQSTATV: 0x5808,
  Q_XGETNEXTQUOTA: 0x5809,
} as const;
type Command = keyof typeof commands;
const PRJQUOTA = 2;

/** quotactl_fd(2), Linux 5.14: needs neither the node of the device nor a path. */
const quotactlCall = systemCall<readonly [Lent, number, number, Uint8Array]>('quotactl_fd', 443, [
  'uint',
  'uint',
  'uint',
  'void *',
]);

/** struct fs_quota_statv (linux/dqblk_xfs.h). */
const stateBytes = 160;
const stateVersion = 1;
const stateFlagsAt = 2;
const FS_QUOTA_PDQ_ACCT = 0x10;
const FS_QUOTA_PDQ_ENFD = 0x20;

/** struct fs_disk_quota; sizes in it are in basic blocks. */
const quotaBytes = 112;
const quotaVersion = 1;
const FS_PROJ_QUOTA = 2;
const FS_DQ_ISOFT = 1 << 0;
const FS_DQ_IHARD = 1 << 1;
const FS_DQ_BSOFT = 1 << 2;
const FS_DQ_BHARD = 1 << 3;
const basicBlockBytes = 512n;

export interface QuotaState {
  /** The space of each project is counted. */
  readonly isAccounted: boolean;
  /** The limits are enforced. */
  readonly isEnforced: boolean;
}

/** 0 means: no limit. */
export interface QuotaLimits {
  readonly bytes: bigint;
  readonly inodes: bigint;
}

export interface ProjectUsage {
  readonly id: number;
  readonly usedBytes: bigint;
  readonly usedInodes: bigint;
  readonly limits: QuotaLimits;
}

/** The project quota of an open file's filesystem. */
export class ProjectQuota {
  readonly #queue: DiskQueue;
  readonly #file: Descriptor;

  constructor(queue: DiskQueue, file: Descriptor) {
    this.#queue = queue;
    this.#file = file;
  }

  /** Both are false where the filesystem or the kernel has no project quota, or it is not switched on. */
  async state(): Promise<QuotaState> {
    const state = Buffer.alloc(stateBytes);
    state.writeInt8(stateVersion, 0);
    try {
      await this.#call('Q_XGETQSTATV', 0, state);
    } catch (error) {
      // EINVAL, ESRCH: another kind of quota is on.
      if (!isErrno(error, 'ENOSYS', 'ENOTSUP', 'EINVAL', 'ESRCH')) throw error;
      return { isAccounted: false, isEnforced: false };
    }
    const flags = state.readUInt16LE(stateFlagsAt);
    return { isAccounted: (flags & FS_QUOTA_PDQ_ACCT) !== 0, isEnforced: (flags & FS_QUOTA_PDQ_ENFD) !== 0 };
  }

  /** The usage of a project, including dirty pages, and its limits. */
  async usage(id: number): Promise<ProjectUsage> {
    const usage = await this.#read('Q_XGETQUOTA', id);
    return usage ?? { id, usedBytes: 0n, usedInodes: 0n, limits: { bytes: 0n, inodes: 0n } };
  }

  /**
   * The same for a project that has usage or limits; undefined: it is unused. Asking for a project by its id makes ext4
   * create an entry for it; asking for the next one (from this id on) does not. From a smaller id, the kernel would
   * skip some (Linux 6.1, fs/quota/quota_tree.c).
   */
  async find(id: number): Promise<ProjectUsage | undefined> {
    const found = await this.#read('Q_XGETNEXTQUOTA', id);
    return found?.id !== id || isEmpty(found) ? undefined : found;
  }

  /** @throws KernelError ESRCH if the quota is not switched on */
  async limit(id: number, limits: QuotaLimits): Promise<void> {
    const quota = Buffer.alloc(quotaBytes);
    quota.writeInt8(quotaVersion, 0);
    quota.writeInt8(FS_PROJ_QUOTA, 1);
    quota.writeUInt16LE(FS_DQ_BHARD | FS_DQ_BSOFT | FS_DQ_IHARD | FS_DQ_ISOFT, 2);
    quota.writeUInt32LE(id, 4);
    quota.writeBigUInt64LE(limits.bytes / basicBlockBytes, 8);
    quota.writeBigUInt64LE(limits.inodes, 24);
    await this.#call('Q_XSETQLIM', id, quota);
  }

  async #read(command: Command, id: number): Promise<ProjectUsage | undefined> {
    const quota = Buffer.alloc(quotaBytes);
    try {
      await this.#call(command, id, quota);
    } catch (error) {
      // XFS has no entry for a project that was never used; there may be no next one.
      if (!isErrno(error, 'ENOENT')) throw error;
      return undefined;
    }
    return {
      id: quota.readUInt32LE(4),
      usedBytes: quota.readBigUInt64LE(40) * basicBlockBytes,
      usedInodes: quota.readBigUInt64LE(48),
      limits: { bytes: quota.readBigUInt64LE(8) * basicBlockBytes, inodes: quota.readBigUInt64LE(24) },
    };
  }

  async #call(command: Command, id: number, argument: Buffer): Promise<void> {
    const operation = (commands[command] << 8) | PRJQUOTA;
    const call = { ...quotactlCall, name: `${quotactlCall.name}(${command})` };
    await invoke(this.#queue, call, [this.#file, operation, id, argument], this.#file.path);
  }
}

function isEmpty({ limits, usedBytes, usedInodes }: ProjectUsage): boolean {
  return usedBytes === 0n && usedInodes === 0n && limits.bytes === 0n && limits.inodes === 0n;
}
