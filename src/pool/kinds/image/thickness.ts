import { constants } from 'node:fs';
import { openFile } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { trim } from '../../../kernel/file/filesystem.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { nextData, punchHole } from '../../../kernel/file/sparse.ts';
import { readMountTable } from '../../../kernel/mount/mount-table.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { Thickness } from '../../backend.ts';
import { openMounted } from '../../freeze/mounted.ts';
import type { ImageParts } from './image-backend.ts';

/** Takes the blocks of an image before they are written, and gives them back. */
export class ImageThickness implements Thickness {
  readonly #parts: ImageParts;

  constructor(parts: ImageParts) {
    this.#parts = parts;
  }

  async makeThick({ id, sizeBytes }: VolumeRecord): Promise<void> {
    const { layout, maker } = this.#parts;
    await maker.enlarge(layout.data(id), { sizeBytes, provisioning: 'thick' });
  }

  /**
   * A filesystem in use knows its free blocks, and reports them to its device (FITRIM); a search for holes from outside
   * would race with its writes.
   */
  async makeThin({ content, id }: VolumeRecord): Promise<void> {
    const { attacher, layout, queue } = this.#parts;
    const inUse = await attacher.inUse(id);
    if (inUse.length === 0) return punchUnwritten(queue, layout.data(id));
    const device = inUse.find(({ readonly }) => !readonly);
    const mounted =
      content.type === 'mount' && device !== undefined
        ? await openMounted(queue, await readMountTable(queue), device)
        : undefined;
    if (mounted === undefined) {
      throw new FailedPrecondition(
        `volume ${id} is in use without a mounted filesystem, so its unwritten blocks cannot be released now: stop its pod first.`,
      );
    }
    await using directory = mounted;
    await trim(queue, directory);
  }
}

/** Gives back the blocks of an image that were allocated but never written. There must be no writer meanwhile. */
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
