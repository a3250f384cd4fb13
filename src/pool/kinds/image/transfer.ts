import { constants } from 'node:fs';
import { writeZeros } from '../../../kernel/block/zeroing.ts';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import { allocate, resizeFile, syncFile } from '../../../kernel/file/file.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { type ByteRange, punchHole } from '../../../kernel/file/sparse.ts';
import type { SnapshotId, VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { SnapshotRecord } from '../../../volume/snapshot-record.ts';
import type {
  IncomingBytesDraft,
  IncomingRoom,
  IncomingSnapshotDraft,
  Provisioner,
  Recorded,
  Transfer,
} from '../../backend.ts';
import {
  IncomingFileDraft,
  IncomingFileSnapshot,
  incomingSnapshotIds,
  incomingVolumeIds,
} from '../../records/incoming-draft.ts';
import { FileMarks } from '../../records/move-marks.ts';
import { changedBlocks } from './changed-blocks.ts';
import { ImageSnapshotDraft, ImageVolumeDraft } from './drafts.ts';
import type { ImageParts } from './image-backend.ts';
import { imageOf, openImage } from './image-file.ts';

/** Images that move into other pools, or come from there. */
export class ImageTransfer extends FileMarks implements Transfer {
  readonly #parts: ImageParts;
  readonly #drafts: Pick<Provisioner, 'discardDrafts'>;

  constructor(parts: ImageParts, drafts: Pick<Provisioner, 'discardDrafts'>) {
    super(parts);
    this.#parts = parts;
    this.#drafts = drafts;
  }

  read(object: Recorded): Promise<Descriptor> {
    const { layout, queue } = this.#parts;
    return openImage(queue, imageOf(layout, object), 'read');
  }

  changedRanges: Transfer['changedRanges'] = (request, find) => changedBlocks(this.#parts, request, find);

  incoming(id: VolumeId): IncomingBytesDraft {
    return new IncomingImage(this.#parts, this.#drafts, id);
  }

  incomingVolumes(): Promise<readonly VolumeId[]> {
    return incomingVolumeIds(this.#parts);
  }

  /** undefined where images do not share blocks: a snapshot would take as much as its volume. */
  get incomingSnapshot(): Transfer['incomingSnapshot'] {
    if (this.#parts.cloning !== 'reflink') return undefined;
    return (id) => new IncomingImageSnapshot(this.#parts, this.#drafts, id);
  }

  async incomingSnapshots(): Promise<readonly SnapshotId[]> {
    return this.incomingSnapshot === undefined ? [] : incomingSnapshotIds(this.#parts);
  }
}

/** The image of a snapshot on its way from another pool. */
class IncomingImageSnapshot extends IncomingFileSnapshot<ImageParts> implements IncomingSnapshotDraft {
  constructor(parts: ImageParts, drafts: Pick<Provisioner, 'discardDrafts'>, id: SnapshotId) {
    super(parts, new ImageSnapshotDraft(parts, id, true), drafts);
  }

  async make(sizeBytes: bigint, base: Recorded | undefined): Promise<boolean> {
    const { queue } = this.parts;
    await this.draft.begin();
    if (base !== undefined) {
      const clone = this.draft.clone(base);
      await clone.goAhead?.();
      // The base may be written to: whatever the clone has, all of it is compared.
      await clone.complete({ isAtRest: true });
    }
    await using data = await openFile(queue, this.draft.data, constants.O_RDWR | constants.O_CREAT, 0o600);
    await resizeFile(queue, data, sizeBytes);
    await this.syncBegun();
    return base !== undefined;
  }

  open(): Promise<Descriptor> {
    return openFile(this.parts.queue, this.draft.data, constants.O_RDWR);
  }

  async zero(data: Descriptor, range: ByteRange): Promise<void> {
    await punchHole(this.parts.queue, data, range);
  }

  takenBytes(): Promise<bigint> {
    return this.draft.takenBytes();
  }

  async complete(record: SnapshotRecord, mark: string): Promise<void> {
    await syncFile(this.parts.queue, this.draft.data);
    await this.writeRecords(record, mark);
  }
}

/** An image on its way from another pool. */
class IncomingImage extends IncomingFileDraft<ImageParts> implements IncomingBytesDraft {
  readonly kind = 'bytes';
  /** Holes read as zeros. */
  readonly isBlank = true;
  #isThick = false;

  constructor(parts: ImageParts, drafts: Pick<Provisioner, 'discardDrafts'>, id: VolumeId) {
    super(parts, new ImageVolumeDraft(parts, id, true), drafts);
  }

  get dataPath(): string {
    return this.draft.data;
  }

  async begin(room: IncomingRoom): Promise<void> {
    const { queue } = this.parts;
    this.#isThick = room.provisioning === 'thick';
    await this.draft.begin();
    await using data = await openFile(queue, this.dataPath, constants.O_RDWR | constants.O_CREAT, 0o600);
    await this.#resize(data, room.sizeBytes);
    await this.syncBegun();
  }

  async resize(sizeBytes: bigint): Promise<void> {
    await using data = await this.open();
    await this.#resize(data, sizeBytes);
  }

  async #resize(data: Descriptor, sizeBytes: bigint): Promise<void> {
    const { queue } = this.parts;
    if (this.#isThick) await allocate(queue, data, sizeBytes);
    if ((await statusOf(queue, data)).sizeBytes < sizeBytes) await resizeFile(queue, data, sizeBytes);
  }

  open(): Promise<Descriptor> {
    return openFile(this.parts.queue, this.dataPath, constants.O_RDWR);
  }

  async zero(data: Descriptor, range: ByteRange): Promise<void> {
    const { queue } = this.parts;
    await (this.#isThick ? writeZeros(queue, data, range) : punchHole(queue, data, range));
  }

  takenBytes(): Promise<bigint> {
    return this.draft.takenBytes();
  }

  async complete(record: VolumeRecord, mark: string): Promise<void> {
    await syncFile(this.parts.queue, this.dataPath);
    await this.writeRecords(record, mark);
  }
}
