import { mkdir, rename, rm, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { ignoreMissing } from '../../kernel/call/errno.ts';
import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import { serializeRecord, type VolumeRecord } from '../../volume/record.ts';
import { type SnapshotRecord, serializeSnapshot } from '../../volume/snapshot-record.ts';
import { step } from '../../volume/step.ts';
import type { Clone, Draft, Recorded } from '../backend.ts';
import type { TrashRef } from '../indexes/trash-entry.ts';
import { moveAway } from './file-removal.ts';
import type { FileParts } from './file-store.ts';
import { allocatedBytesOf } from './filesystem-space.ts';

/** A directory in tmp/ that is renamed into its place when it is whole. */
abstract class FileDraft<Id extends VolumeId | SnapshotId, Parts extends FileParts> implements Draft {
  readonly id: Id;
  readonly directory: string;
  /** The file or directory with the data. */
  readonly data: string;
  protected readonly parts: Parts;
  protected readonly isResumable: boolean;
  /** True: the object in the place was made here, and was not put back there by hand. */
  #isInPlace = false;

  constructor(parts: Parts, id: Id, isResumable = false) {
    this.parts = parts;
    this.id = id;
    this.isResumable = isResumable;
    this.directory = isResumable ? parts.layout.copyDraft(id) : parts.layout.newDraft(id);
    this.data = join(this.directory, 'data');
  }

  protected abstract readonly place: string;

  get isInPlace(): boolean {
    return this.#isInPlace;
  }

  async begin(): Promise<void> {
    await this.parts.queue.run(() => mkdir(this.directory, { mode: 0o700, recursive: this.isResumable }));
  }

  /** A tree is counted later. */
  async takenBytes(): Promise<bigint> {
    return 0n;
  }

  /** The space of data that is one file. */
  protected fileBytes(): Promise<bigint> {
    const data = this.#isInPlace ? join(this.place, basename(this.data)) : this.data;
    return allocatedBytesOf(this.parts.queue, data);
  }

  abstract clone(source: Recorded): Clone;

  async commit(): Promise<void> {
    await this.parts.beforeChange?.();
    const { queue, syncs } = this.parts;
    if (!this.#isInPlace) await queue.run(() => rename(this.directory, this.place));
    this.#isInPlace = true;
    await syncs.sync(queue, dirname(this.place));
  }

  async discard(): Promise<TrashRef | undefined> {
    const { layout, queue } = this.parts;
    // Under another name: the queue unlinks it later, when the retry's object may have this one.
    if (this.#isInPlace) return moveAway(queue, this.place, layout.newTrash(this.id));
    return this.isResumable ? undefined : this.directory;
  }
}

export abstract class VolumeFileDraft<Parts extends FileParts> extends FileDraft<VolumeId, Parts> {
  protected get place(): string {
    return this.parts.layout.volume(this.id);
  }

  async writeRecord(record: VolumeRecord): Promise<void> {
    const { order, queue } = this.parts;
    await step('create/record', async () => {
      const path = join(this.directory, 'volume.json');
      // A resumed draft may have one from a try that was cut short.
      if (this.isResumable) await queue.run(() => rm(path, { force: true }));
      await order.newFile(path, serializeRecord(record));
    });
  }
}

export abstract class SnapshotFileDraft<Parts extends FileParts> extends FileDraft<SnapshotId, Parts> {
  protected get place(): string {
    return this.parts.layout.snapshot(this.id);
  }

  async complete(record: SnapshotRecord): Promise<void> {
    await this.parts.order.content(this.data);
    await this.writeRecord(record);
  }

  async writeRecord(record: SnapshotRecord): Promise<void> {
    const { order, queue } = this.parts;
    const path = join(this.directory, 'snapshot.json');
    await queue.run(() => unlink(path)).catch(ignoreMissing);
    await order.newFile(path, serializeSnapshot(record));
    await order.names(this.directory);
  }
}
