import { errnoName, KernelError } from '../call/errno.ts';

/**
 * The kernel's answers when a disk, or the filesystem on it, has failed, each with a sentence without its full stop.
 * Block devices have a number for each way to fail (blk_errors in block/blk-core.c), filesystems have others, and
 * network filesystems also use those of the network. A full disk is no fault.
 */
const faults: ReadonlyMap<string, string> = new Map([
  ['EIO', 'its disk or filesystem answers with I/O errors'],
  ['EROFS', 'its filesystem has become read-only'],
  ['ENXIO', 'its disk is gone'],
  ['ENODEV', 'its disk is gone'],
  ['ENOMEDIUM', 'its disk is gone'],
  ['ENOLINK', 'its disk has lost its connection'],
  ['EREMOTEIO', 'its disk answers with errors'],
  ['EBADE', 'its disk is reserved by another host'],
  ['ENODATA', 'its disk cannot read written data'],
  ['EILSEQ', 'its disk reports wrong checksums'],
  ['ETIME', 'its disk reports a timeout'],
  ['ETIMEDOUT', 'its disk reports a timeout'],
  ['EUCLEAN', 'its filesystem is damaged'],
  ['EBADMSG', 'its filesystem is damaged'],
  ['ESHUTDOWN', 'its filesystem has shut down'],
  ['ESTALE', 'its filesystem is gone'],
  ['ENOTCONN', 'its filesystem is gone'],
]);

/** fsopen(2) answers ENODEV if the kernel has no such filesystem. That says nothing of a disk. */
const callsWithoutDisk: ReadonlySet<string> = new Set(['fsopen']);

/** The fault of the disk that an error of the kernel shows; undefined: none, the disk may be healthy. */
export function diskFaultOf(error: unknown): string | undefined {
  if (!isOfKernel(error) || callsWithoutDisk.has(error.syscall)) return undefined;
  const code = errnoName(error) ?? '';
  const words = faults.get(code);
  return words === undefined ? undefined : `${words} (${code})`;
}

/** Matches our KernelError, and errors of node:fs. */
function isOfKernel(error: unknown): error is Error & { readonly syscall: string } {
  if (error instanceof KernelError) return true;
  return error instanceof Error && 'syscall' in error && typeof error.syscall === 'string';
}
