import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { type IoctlRequest, ioctl } from '../call/ioctl.ts';
import { writeAt } from '../file/file.ts';
import { type ByteRange, punchHole } from '../file/sparse.ts';

/*
 * Ways to make a range of a block device read as zeros, whole sectors at a time. The guarantees:
 *
 * - BLKDISCARD promises nothing about later reads: `queue/discard_zeroes_data` is 0 for every disk since Linux 4.12,
 * and a disk may ignore a discard, all of it or its edges. So it is not used here.
 * - fallocate(2) of a block device with PUNCH_HOLE does what one hopes of a discard: the kernel sends a command after
 * which reads must return zeros and which may free the blocks (NVMe Write Zeroes with Deallocate where the namespace
 * says that such blocks read as zeros, SCSI WRITE SAME with UNMAP where LBPRZ says the same, virtio write zeroes, a
 * hole in a loop device's file). A disk that cannot do that answers EOPNOTSUPP, and nothing is written instead.
 * - BLKZEROOUT always works: with the disk's own command for zeros that keeps the blocks
 * (`queue/write_zeroes_max_bytes` shows if it has one), otherwise the kernel writes pages of zeros.
 *
 * All of them remove the range from the page cache. None waits for the disk's own cache: sync the device.
 */

const BLKZEROOUT: IoctlRequest = { name: 'BLKZEROOUT', number: 0x127f };

/** Writes zeros and frees the blocks. @throws KernelError EOPNOTSUPP if the disk cannot promise both */
export function deallocate(queue: DiskQueue, device: Descriptor, range: ByteRange): Promise<void> {
  return punchHole(queue, device, range);
}

/** Writes zeros and keeps the blocks. @throws KernelError ENOTTY if it is no block device */
export async function zeroOut(queue: DiskQueue, device: Descriptor, range: ByteRange): Promise<void> {
  const argument = Buffer.alloc(16);
  argument.writeBigUInt64LE(range.offsetBytes, 0);
  argument.writeBigUInt64LE(range.lengthBytes, 8);
  await ioctl(queue, device, BLKZEROOUT, argument);
}

const bufferBytes = 4 << 20;

/** The same by plain writes, for files that the kernel has no call for. */
export async function writeZeros(queue: DiskQueue, file: Descriptor, range: ByteRange): Promise<void> {
  const zeros = Buffer.alloc(bufferBytes);
  const endBytes = range.offsetBytes + range.lengthBytes;
  for (let at = range.offsetBytes; at < endBytes; at += BigInt(bufferBytes)) {
    const restBytes = endBytes - at;
    const piece = restBytes < BigInt(bufferBytes) ? zeros.subarray(0, Number(restBytes)) : zeros;
    await writeAt(queue, file, piece, at);
  }
}
