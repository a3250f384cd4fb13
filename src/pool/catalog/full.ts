import { isErrno } from '../../kernel/call/errno.ts';
import { ResourceExhausted } from '../../volume/errors.ts';
import { formatBytes } from '../../volume/size.ts';

/** The error of a full disk, in words that say what to do. */
export function explainFull(error: unknown, poolName: string, sizeBytes: bigint): unknown {
  if (!isErrno(error, 'ENOSPC', 'EDQUOT')) return error;
  return new ResourceExhausted(
    `pool ${poolName} has no room for ${formatBytes(sizeBytes)} (its filesystem is full): delete volumes or give it more space.`,
  );
}
