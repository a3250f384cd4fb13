import { diskFaultOf } from '../kernel/block/disk-fault.ts';
import { DataLoss, Unavailable } from '../volume/errors.ts';

/** A pool whose disk is sick: it gets no calls until the disk is well again. */
export class PoolQuarantined extends Unavailable {
  readonly poolName: string;
  /** RFC 3339, UTC. */
  readonly since: string;
  /** The problem with the disk, as a sentence without its full stop. */
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

/** Another node or program has written to a pool's disk: nothing is read or written there until the driver restarts. */
export class DiskLost extends DataLoss {}

/** The reason to give up a pool, as a sentence without its full stop; undefined: the error says nothing of the disk. */
export function reasonToGiveUp(poolName: string, error: unknown): string | undefined {
  return error instanceof DiskLost ? reasonIn(poolName, error) : diskFaultOf(error);
}

export function reasonIn(poolName: string, error: unknown): string {
  const words = error instanceof Error ? error.message : String(error);
  return words.replace(`pool ${poolName}: `, '').replace(/\.$/, '');
}
