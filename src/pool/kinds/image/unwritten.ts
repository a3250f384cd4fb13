import { constants } from 'node:fs';
import { openFile } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { nextData, punchHole } from '../../../kernel/file/sparse.ts';

/** Gives back the blocks of an image that were allocated but never written. Nobody may write to it meanwhile. */
export async function punchUnwritten(queue: DiskQueue, path: string): Promise<void> {
  await using image = await openFile(queue, path, constants.O_RDWR);
  const { sizeBytes } = await statusOf(queue, path);
  let offsetBytes = 0n;
  while (offsetBytes < sizeBytes) {
    const data = await nextData(queue, image, offsetBytes);
    const holeEnd = data?.offsetBytes ?? sizeBytes;
    if (holeEnd > offsetBytes) {
      await punchHole(queue, image, { offsetBytes, lengthBytes: holeEnd - offsetBytes });
    }
    if (data === undefined) return;
    offsetBytes = data.offsetBytes + data.lengthBytes;
  }
}
