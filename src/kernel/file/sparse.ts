import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { KernelError } from '../call/errno.ts';
import { callLater, invoke, type Lent, libcCall } from '../call/libc.ts';

/** A range of a file, in bytes. */
export interface ByteRange {
  readonly offsetBytes: bigint;
  readonly lengthBytes: bigint;
}

const SEEK_SET = 0;
const SEEK_DATA = 3;
const SEEK_HOLE = 4;
const FALLOC_FL_KEEP_SIZE = 1;
const FALLOC_FL_PUNCH_HOLE = 2;
const ENXIO = 6;

const lseekCall = libcCall<readonly [Lent, bigint, number]>('int64_t lseek(int fd, int64_t offset, int whence)');
const copyCall = libcCall<readonly [Lent, Uint8Array, Lent, Uint8Array, number, number]>(
  'long copy_file_range(int in, void *in_offset, int out, void *out_offset, size_t length, uint flags)',
);
const fallocateCall = libcCall<readonly [Lent, number, bigint, bigint]>(
  'int fallocate(int fd, int mode, int64_t offset, int64_t length)',
);

/**
 * The first range of data at or after an offset; undefined if only a hole follows (lseek(2), SEEK_DATA). Allocated
 * blocks that were never written count as a hole.
 */
export async function nextData(queue: DiskQueue, file: Descriptor, fromBytes: bigint): Promise<ByteRange | undefined> {
  const start = await seek(queue, file, fromBytes, SEEK_DATA);
  if (start === undefined) return undefined;
  // There is a hole at the end of every file.
  const end = (await seek(queue, file, start, SEEK_HOLE)) ?? start;
  return { offsetBytes: start, lengthBytes: end - start };
}

/** Sets the position of an open file or directory. */
export async function seekTo(queue: DiskQueue, file: Descriptor, offset: bigint): Promise<void> {
  await seek(queue, file, offset, SEEK_SET);
}

async function seek(queue: DiskQueue, file: Descriptor, offset: bigint, whence: number): Promise<bigint | undefined> {
  const { result, errno } = await callLater(queue, lseekCall, [file, offset, whence]);
  if (typeof result !== 'number' && typeof result !== 'bigint')
    throw new TypeError(`lseek returned a ${typeof result}`);
  if (result >= 0) return BigInt(result);
  if (errno === ENXIO) return undefined;
  throw new KernelError({ syscall: 'lseek', errno, path: file.path });
}

/** Copies a range to the same place of another file inside the kernel (copy_file_range(2)). */
export async function copyRange(queue: DiskQueue, from: Descriptor, to: Descriptor, range: ByteRange): Promise<void> {
  let offset = range.offsetBytes;
  const end = range.offsetBytes + range.lengthBytes;
  while (offset < end) {
    const [inOffset, outOffset] = [Buffer.alloc(8), Buffer.alloc(8)];
    inOffset.writeBigInt64LE(offset);
    outOffset.writeBigInt64LE(offset);
    const length = Number(end - offset > maximumCopyBytes ? maximumCopyBytes : end - offset);
    const copied = await invoke(queue, copyCall, [from, inOffset, to, outOffset, length, 0], to.path);
    // The source became shorter: there is nothing more to copy.
    if (copied === 0) return;
    offset += BigInt(copied);
  }
}

/** One call copies at most this much, so that a worker thread is free again soon. */
const maximumCopyBytes = 16n << 20n;

/** Frees the blocks of a range, which reads as zeros then (fallocate(2)). */
export async function punchHole(queue: DiskQueue, file: Descriptor, range: ByteRange): Promise<void> {
  const mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  await invoke(queue, fallocateCall, [file, mode, range.offsetBytes, range.lengthBytes], file.path);
}
