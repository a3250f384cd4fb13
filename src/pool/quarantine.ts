import { KernelError } from '../kernel/errno.ts';
import { Unavailable } from '../volume/errors.ts';

/** A pool whose disk is sick: it gets no calls until the disk is well again. */
export class PoolQuarantined extends Unavailable {
  readonly poolName: string;
  /** RFC 3339, UTC. */
  readonly since: string;
  /** What is wrong with the disk, as a sentence without its full stop. */
  readonly reason: string;

  constructor(poolName: string, since: string, reason: string) {
    super(
      `pool ${poolName} is in quarantine since ${since}: ${reason}. See dmesg, and "Sick disks" in docs/operations.md.`,
    );
    this.poolName = poolName;
    this.since = since;
    this.reason = reason;
  }

  /** For a volume's condition, which has at most 128 bytes (L07). */
  get summary(): string {
    return `Pool ${this.poolName.slice(0, 24)} is in quarantine: its disk is sick. See the log of the driver and of the kernel.`;
  }
}

const sickErrors: ReadonlyMap<string, string> = new Map([
  ['EIO', 'its disk or filesystem answers with I/O errors (EIO)'],
  ['EROFS', 'its filesystem has become read-only (EROFS)'],
  ['ENXIO', 'its disk is gone (ENXIO)'],
  ['ENODEV', 'its disk is gone (ENODEV)'],
  ['EUCLEAN', 'its filesystem is damaged (EUCLEAN)'],
  ['EBADMSG', 'its filesystem is damaged (EBADMSG)'],
  ['ESHUTDOWN', 'its filesystem has shut down (ESHUTDOWN)'],
  ['ESTALE', 'its filesystem is gone (ESTALE)'],
  ['ENOTCONN', 'its filesystem is gone (ENOTCONN)'],
  ['ETIMEDOUT', 'its disk answers that it timed out (ETIMEDOUT)'],
  ['ENOLINK', 'its disk has lost its connection (ENOLINK)'],
  ['EREMOTEIO', 'its disk answers with errors (EREMOTEIO)'],
]);

/** What an error says of the disk it came from; undefined if it may be in the best of health. */
export function sicknessOf(error: unknown): string | undefined {
  if (!(error instanceof KernelError) && !(error instanceof Error && 'syscall' in error)) return undefined;
  return 'code' in error && typeof error.code === 'string' ? sickErrors.get(error.code) : undefined;
}
