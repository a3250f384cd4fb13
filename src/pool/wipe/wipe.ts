import { deallocate, writeZeros, zeroOut } from '../../kernel/block/zeroing.ts';
import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { isErrno } from '../../kernel/call/errno.ts';
import { syncFile } from '../../kernel/file/file.ts';
import type { ByteRange } from '../../kernel/file/sparse.ts';
import { smaller } from '../../volume/size.ts';
import type { WipePolicy } from '../../volume/wipe-policy.ts';

export interface WipeRequest {
  readonly queue: DiskQueue;
  /** Open for writing, and exclusively. */
  readonly device: Descriptor;
  /** Whole sectors of it. */
  readonly range: ByteRange;
  readonly policy: WipePolicy;
  /** Once aborted, no further piece is begun. */
  readonly signal?: AbortSignal | undefined;
  /** Hears after each piece how much of the range is done. */
  readonly onProgress?: ((doneBytes: bigint) => void) | undefined;
}

/** The way in which the last piece was wiped. */
export type WipeMethod = 'deallocated' | 'zeroed' | 'written' | 'none';

interface Way {
  readonly method: WipeMethod;
  readonly wipe: (queue: DiskQueue, device: Descriptor, range: ByteRange) => Promise<void>;
  /** A piece takes a disk that has to write it about a second at most, so that a stop is soon. */
  readonly pieceBytes: bigint;
  /** It goes through the page cache, which is not to fill up with zeros. */
  readonly isCached: boolean;
}

const mebibyte = 1n << 20n;

const deallocating: Way = {
  method: 'deallocated',
  wipe: deallocate,
  pieceBytes: 256n * mebibyte,
  isCached: false,
};
const zeroing: Way = { method: 'zeroed', wipe: zeroOut, pieceBytes: 64n * mebibyte, isCached: false };
const writing: Way = { method: 'written', wipe: writeZeros, pieceBytes: 64n * mebibyte, isCached: true };

const ways: { readonly [Policy in WipePolicy]: readonly Way[] } = {
  discard: [deallocating, zeroing, writing],
  zero: [zeroing, writing],
  none: [],
};

/**
 * Makes a range of a device read as zeros, durably. It is not read again: the disk's answer is believed. After a crash it
 * starts again from the beginning; zeros are passed over quickly.
 * @throws what the disk answers; the reason of an abort
 */
export async function wipe(request: WipeRequest): Promise<WipeMethod> {
  const { device, onProgress, policy, queue, range, signal } = request;
  const left = [...ways[policy]];
  let doneBytes = 0n;
  while (doneBytes < range.lengthBytes) {
    const [way] = left;
    if (way === undefined) break;
    signal?.throwIfAborted();
    const lengthBytes = smaller(way.pieceBytes, range.lengthBytes - doneBytes);
    try {
      await way.wipe(queue, device, { offsetBytes: range.offsetBytes + doneBytes, lengthBytes });
      if (way.isCached) await syncFile(queue, device);
    } catch (error) {
      if (left.length === 1 || !isUnable(error)) throw error;
      left.shift();
      continue;
    }
    doneBytes += lengthBytes;
    onProgress?.(doneBytes);
  }
  if (policy !== 'none') await syncFile(queue, device);
  return left[0]?.method ?? 'none';
}

/** The disk, or a layer in between, does not know the command: SCSI disks say so only when they get it (EREMOTEIO). */
export function isUnable(error: unknown): boolean {
  return isErrno(error, 'ENOTSUP', 'ENOTTY', 'EREMOTEIO');
}
