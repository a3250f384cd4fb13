import { withDevice } from '../../../filesystems/brief-mount.ts';
import { finishAll } from '../../../volume/flow/finish-all.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import { step } from '../../../volume/step.ts';
import type { Clone, NewData, Recorded, SnapshotDraft, VolumeDraft } from '../../backend.ts';
import { SnapshotFileDraft, VolumeFileDraft } from '../../records/file-draft.ts';
import type { ImageParts } from './image-backend.ts';
import { imageOf } from './image-file.ts';

/** A volume on its way, as a directory with an image in it. */
export class ImageVolumeDraft extends VolumeFileDraft<ImageParts> implements VolumeDraft {
  /** It is a clone of another volume, a snapshot or a template. */
  #isClone = false;

  clone(source: Recorded): Clone {
    this.#isClone = true;
    return cloneInto(this.parts, source, this.data);
  }

  /** Blocks that it shares with its source are not taken, and its own ones cannot be distinguished from those. */
  override async takenBytes(): Promise<bigint> {
    const { cloning } = this.parts;
    return this.#isClone && cloning === 'reflink' ? 0n : this.fileBytes();
  }

  /** mkfs takes longer than all the rest, so the names are put on the disk beside it. */
  async make(record: VolumeRecord, data: NewData): Promise<void> {
    const { maker, order } = this.parts;
    this.#isClone = data.provisioning === 'thin';
    const image = await step('create/data', () => maker.create(this.data, data));
    try {
      await finishAll([
        maker.complete(this.id, data, image),
        this.writeRecord(record).then(() => order.names(this.directory)),
      ]);
    } finally {
      image.closeLater();
    }
  }

  async complete(record: VolumeRecord, data: Parameters<VolumeDraft['complete']>[1]): Promise<void> {
    const { maker, order } = this.parts;
    await finishAll([step('create/identity', () => maker.adopt(data, this.data)), this.writeRecord(record)]);
    await order.names(this.directory);
  }

  withDevice<T>(blockSizeBytes: number, work: (devicePath: string) => Promise<T>): Promise<T> {
    return withDevice(this.parts.queue, { path: this.data, blockSizeBytes }, work);
  }
}

/** A snapshot on its way: a clone of an image, as it was. */
export class ImageSnapshotDraft extends SnapshotFileDraft<ImageParts> implements SnapshotDraft {
  override takenBytes(): Promise<bigint> {
    return this.fileBytes();
  }

  clone(source: Recorded): Clone {
    return cloneInto(this.parts, source, this.data);
  }
}

function cloneInto({ layout, maker }: ImageParts, source: Recorded, data: string): Clone {
  return maker.clone(imageOf(layout, source).path, data);
}
