import { constants } from 'node:fs';
import { rm, rmdir, truncate, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import { ignoreMissing, isErrno } from '../../../kernel/call/errno.ts';
import { resizeFile } from '../../../kernel/file/file.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { isOpenElsewhere } from '../../../kernel/process/lock.ts';
import { HoldfastError } from '../../../volume/errors.ts';
import { finishAll } from '../../../volume/flow/finish-all.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { larger } from '../../../volume/size.ts';
import type { Destruction, DraftOptions, Provisioner, Recorded, VolumeDraft } from '../../backend.ts';
import { abnormal } from '../../condition.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import type { Condition } from '../../pool.ts';
import { FileRemoval } from '../../records/file-removal.ts';
import { ImageVolumeDraft } from './drafts.ts';
import type { ImageParts } from './image-backend.ts';
import { imageOf, requireWhole } from './image-file.ts';

/** Makes, changes, removes and restores images. */
export class ImageProvisioner extends FileRemoval<ImageParts> implements Provisioner {
  draft(id: VolumeId, { isResumable }: DraftOptions): VolumeDraft {
    return new ImageVolumeDraft(this.parts, id, isResumable);
  }

  async verify(object: Recorded): Promise<void> {
    await requireWhole(this.parts.queue, imageOf(this.parts.layout, object));
  }

  async conditionOf({ id, sizeBytes }: VolumeRecord): Promise<Condition | undefined> {
    const { layout, queue } = this.parts;
    try {
      const image = await statusOf(queue, layout.data(id));
      if (image.sizeBytes >= sizeBytes) return undefined;
      return abnormal('The image file is shorter than the volume: data is missing.');
    } catch (error) {
      // For example, the pool is in quarantine by now.
      if (error instanceof HoldfastError) throw error;
      if (isErrno(error, 'ENOENT')) return abnormal('The image file is missing.');
      return abnormal('The image file cannot be read; see the kernel log of the node.');
    }
  }

  async sizeOf(id: VolumeId): Promise<bigint | undefined> {
    const { layout, queue } = this.parts;
    return (await statusOf(queue, layout.data(id)).catch(ignoreMissing))?.sizeBytes;
  }

  dataFile(id: VolumeId): string {
    return this.parts.layout.data(id);
  }

  /** Some filesystems keep what they have allocated before they ran full, and make the file longer. */
  async grow(grown: VolumeRecord): Promise<void> {
    const { layout, maker, queue } = this.parts;
    const path = layout.data(grown.id);
    const { sizeBytes } = await statusOf(queue, path);
    try {
      await maker.enlarge(path, grown);
    } catch (error) {
      // No device shows what lies behind the old end yet. Blocks there go when a longer file is cut off.
      await resizeFile(queue, path, larger(sizeBytes, grown.sizeBytes)).catch(() => undefined);
      await resizeFile(queue, path, sizeBytes).catch(() => undefined);
      throw error;
    }
  }

  async destroy(ref: TrashRef, { isNeeded, isShared }: Destruction): Promise<void> {
    const { queue } = this.parts;
    try {
      // XFS lets go of an unlinked file's blocks later, of a truncated one's at once: until then they are not free, and
      // count as shared.
      if (isNeeded || (isShared && !(await this.#isRead(ref))))
        await queue.run(() => truncate(join(ref, 'data'))).catch(ignoreMissing);
      // Less work than rm(), which looks at everything before it unlinks it.
      await finishAll(
        ['data', 'volume.json'].map((name) => queue.run(() => unlink(join(ref, name))).catch(ignoreMissing)),
      );
      await queue.run(() => rmdir(ref)).catch(ignoreMissing);
    } catch (error) {
      // More than a volume has: half a copy, a snapshot. Or a plain file in tmp/, with which a start tried the disk out.
      if (!isErrno(error, 'ENOTEMPTY', 'EEXIST', 'ENOTDIR')) throw error;
      await queue.run(() => rm(ref, { recursive: true, force: true }));
    }
  }

  async openInTrash(ref: TrashRef): Promise<Descriptor | undefined> {
    return openFile(this.parts.queue, join(ref, 'data'), constants.O_RDWR).catch(ignoreMissing);
  }

  /** True if the image is being read: changed blocks are listed to their end, also of a snapshot that is gone (SM14). */
  async #isRead(ref: TrashRef): Promise<boolean> {
    return (await isOpenElsewhere(this.parts.queue, join(ref, 'data')).catch(ignoreMissing)) ?? false;
  }
}
