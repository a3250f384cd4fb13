import { constants } from 'node:fs';
import { readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { writeZeros } from '../../../kernel/block/zeroing.ts';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import { ignoreMissing } from '../../../kernel/call/errno.ts';
import { allocate, resizeFile, syncFile } from '../../../kernel/file/file.ts';
import { statusOf } from '../../../kernel/file/path.ts';
import { type ByteRange, punchHole } from '../../../kernel/file/sparse.ts';
import type { VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { IncomingBytesDraft, IncomingRoom, Provisioner, Recorded, Transfer } from '../../backend.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import { replaceFile } from '../../records/durable-file.ts';
import { FileMarks, moveMarkName } from '../../records/move-marks.ts';
import { changedBlocks } from './changed-blocks.ts';
import { ImageVolumeDraft } from './drafts.ts';
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
}

/** The name in a draft's directory of the note about its content. */
const noteName = 'incoming.json';

/** An image on its way from another pool: a draft with a persistent name, as a copy has it. */
class IncomingImage implements IncomingBytesDraft {
  readonly kind = 'bytes';
  /** Holes read as zeros. */
  readonly isBlank = true;
  readonly #parts: ImageParts;
  readonly #drafts: Pick<Provisioner, 'discardDrafts'>;
  readonly #draft: ImageVolumeDraft;
  #isThick = false;

  constructor(parts: ImageParts, drafts: Pick<Provisioner, 'discardDrafts'>, id: VolumeId) {
    this.#parts = parts;
    this.#drafts = drafts;
    this.#draft = new ImageVolumeDraft(parts, id, true);
  }

  get dataPath(): string {
    return this.#draft.data;
  }

  async begin(room: IncomingRoom): Promise<void> {
    const { queue, syncs } = this.#parts;
    this.#isThick = room.provisioning === 'thick';
    await this.#draft.begin();
    await using data = await openFile(queue, this.dataPath, constants.O_RDWR | constants.O_CREAT, 0o600);
    await this.#resize(data, room.sizeBytes);
    await syncs.sync(queue, this.#draft.directory);
    await syncs.sync(queue, this.#parts.layout.drafts);
  }

  async resize(sizeBytes: bigint): Promise<void> {
    await using data = await this.open();
    await this.#resize(data, sizeBytes);
  }

  async #resize(data: Descriptor, sizeBytes: bigint): Promise<void> {
    const { queue } = this.#parts;
    if (this.#isThick) await allocate(queue, data, sizeBytes);
    if ((await statusOf(queue, data)).sizeBytes < sizeBytes) await resizeFile(queue, data, sizeBytes);
  }

  open(): Promise<Descriptor> {
    return openFile(this.#parts.queue, this.dataPath, constants.O_RDWR);
  }

  async zero(data: Descriptor, range: ByteRange): Promise<void> {
    const { queue } = this.#parts;
    await (this.#isThick ? writeZeros(queue, data, range) : punchHole(queue, data, range));
  }

  async readNote(): Promise<string | undefined> {
    return this.#parts.queue.run(() => readFile(this.#path(noteName), 'utf8')).catch(ignoreMissing);
  }

  async writeNote(text: string): Promise<void> {
    const { queue, syncs } = this.#parts;
    await replaceFile(queue, syncs, this.#path(noteName), text);
  }

  takenBytes(): Promise<bigint> {
    return this.#draft.takenBytes();
  }

  async complete(record: VolumeRecord, mark: string): Promise<void> {
    const { queue, syncs } = this.#parts;
    await syncFile(queue, this.dataPath);
    await replaceFile(queue, syncs, this.#path(moveMarkName), mark);
    await this.#draft.writeRecord(record);
    await syncs.sync(queue, this.#draft.directory);
  }

  async commit(): Promise<void> {
    await this.#draft.commit();
  }

  /** The name is free at once: the next move must not meet the data of this one. */
  async discard(): Promise<TrashRef[]> {
    return this.#drafts.discardDrafts(new Set([this.#draft.id]));
  }

  async forgetNote(): Promise<void> {
    const { layout, queue } = this.#parts;
    await queue.run(() => unlink(join(layout.volume(this.#draft.id), noteName))).catch(ignoreMissing);
  }

  #path(name: string): string {
    return join(this.#draft.directory, name);
  }
}
