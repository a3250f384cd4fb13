import { constants } from 'node:fs';
import { zeroOut } from '../../../kernel/block/zeroing.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { readAt, syncFile, writeAt } from '../../../kernel/file/file.ts';
import { smaller } from '../../../volume/size.ts';
import type { VolumeGroup } from './group/volume-group.ts';
import { openLv } from './lv-device.ts';

export interface LvCopy {
  /** Open for reading. */
  readonly from: Descriptor;
  readonly toName: string;
  readonly sizeBytes: bigint;
  readonly signal: AbortSignal | undefined;
}

const blockBytes = 4n << 20n;
const zeros = Buffer.alloc(Number(blockBytes));
/** Synced each time, so that the page cache does not fill up with it. */
const pieceBytes = 256n << 20n;

/** Copies the content of one logical volume, which is not in use, over all of another one. Durable at its end. */
export async function copyLv(queue: DiskQueue, group: VolumeGroup, copy: LvCopy): Promise<void> {
  const { from, signal, sizeBytes, toName } = copy;
  await using to = (await openLv(queue, group, toName, constants.O_RDWR | constants.O_EXCL)).descriptor;
  for (let offset = 0n; offset < sizeBytes; ) {
    signal?.throwIfAborted();
    const lengthBytes = Number(smaller(blockBytes, sizeBytes - offset));
    const block = await readAt(queue, from, { lengthBytes, offsetBytes: Number(offset) });
    // Most disks make zeros without being sent any.
    if (block.equals(zeros.subarray(0, block.length))) {
      await zeroOut(queue, to, { offsetBytes: offset, lengthBytes: BigInt(block.length) });
    } else {
      await writeAt(queue, to, block, offset);
    }
    offset += BigInt(block.length);
    if (offset % pieceBytes === 0n) await syncFile(queue, to);
  }
  await syncFile(queue, to);
}
