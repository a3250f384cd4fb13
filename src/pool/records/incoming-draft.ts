import { readdir, unlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { ignoreMissing } from '../../kernel/call/errno.ts';
import { readIfThere } from '../../kernel/file/file.ts';
import { parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import type { Provisioner } from '../backend.ts';
import type { TrashRef } from '../indexes/trash-entry.ts';
import { replaceFile } from './durable-file.ts';
import type { SnapshotFileDraft, VolumeFileDraft } from './file-draft.ts';
import type { FileParts } from './file-store.ts';
import { isThere } from './gone.ts';
import { copySuffix } from './layout.ts';
import { moveMarkName } from './move-marks.ts';

/** The name in a draft's directory of the note about its content. */
export const noteName = 'incoming.json';

/** A volume or snapshot on its way from another pool: a draft with a persistent name, as a copy has it. */
abstract class IncomingFiles<Parts extends FileParts, Made extends SnapshotFileDraft<Parts> | VolumeFileDraft<Parts>> {
  protected readonly parts: Parts;
  protected readonly draft: Made;
  readonly #drafts: Pick<Provisioner, 'discardDrafts'>;

  constructor(parts: Parts, draft: Made, drafts: Pick<Provisioner, 'discardDrafts'>) {
    this.parts = parts;
    this.draft = draft;
    this.#drafts = drafts;
  }

  async readNote(): Promise<string | undefined> {
    return readIfThere(this.parts.queue, this.pathOf(noteName));
  }

  async writeNote(text: string): Promise<void> {
    const { queue, syncs } = this.parts;
    await replaceFile(queue, syncs, this.pathOf(noteName), text);
  }

  /** The other pool has handed it over: until this is done it is nowhere. So a full disk must not stop it. */
  async commit(): Promise<void> {
    const { queue, reserve } = this.parts;
    await reserve.withReserve(queue, () => this.draft.commit());
  }

  /**
   * The name is free at once: the next move must not meet the data of this one. Durably, as a note that it must go may be removed
   * after that.
   */
  async discard(): Promise<TrashRef[]> {
    const { layout, order } = this.parts;
    const refs = await this.#drafts.discardDrafts(new Set([this.draft.id]));
    if (refs.length > 0) await order.moved(layout.drafts, layout.trash);
    return refs;
  }

  async forgetNote(): Promise<void> {
    const { layout, queue } = this.parts;
    await queue.run(() => unlink(join(layout.directoryOf(this.draft.id), noteName))).catch(ignoreMissing);
  }

  /** Its directory, and all that has been made in it, is durable. */
  protected async syncBegun(): Promise<void> {
    const { layout, queue, syncs } = this.parts;
    await syncs.sync(queue, this.draft.directory);
    await syncs.sync(queue, layout.drafts);
  }

  /** Its mark and its record, durably: the last step of `complete`. For a full disk the same is true as at the commit. */
  protected async writeWithMark(mark: string, writeRecord: () => Promise<void>): Promise<void> {
    const { queue, reserve, syncs } = this.parts;
    await reserve.withReserve(queue, async () => {
      await replaceFile(queue, syncs, this.pathOf(moveMarkName), mark);
      await writeRecord();
      await syncs.sync(queue, this.draft.directory);
    });
  }

  protected pathOf(name: string): string {
    return join(this.draft.directory, name);
  }
}

/** A volume on its way. */
export abstract class IncomingFileDraft<Parts extends FileParts> extends IncomingFiles<Parts, VolumeFileDraft<Parts>> {
  protected async writeRecords(record: VolumeRecord, mark: string): Promise<void> {
    await this.writeWithMark(mark, () => this.draft.writeRecord(record));
  }
}

/** A snapshot on its way. */
export abstract class IncomingFileSnapshot<Parts extends FileParts> extends IncomingFiles<
  Parts,
  SnapshotFileDraft<Parts>
> {
  protected async writeRecords(record: SnapshotRecord, mark: string): Promise<void> {
    await this.writeWithMark(mark, () => this.draft.writeRecord(record));
  }
}

/** The volumes on their way. Those that are copied within their pool have drafts with such names, and no note. */
export async function incomingVolumeIds({ layout, queue }: FileParts): Promise<VolumeId[]> {
  const names = (await queue.run(() => readdir(layout.drafts))).filter((name) => name.endsWith(copySuffix));
  const found = names.map(async (name) => {
    const id = parseVolumeId(basename(name, copySuffix));
    return id !== undefined && (await isThere(queue, join(layout.drafts, name, noteName))) ? [id] : [];
  });
  return (await Promise.all(found)).flat();
}

/** The snapshots on their way, in a pool whose own snapshots are no copies: those have drafts with such names, too. */
export async function incomingSnapshotIds({ layout, queue }: FileParts): Promise<SnapshotId[]> {
  const names = (await queue.run(() => readdir(layout.drafts))).filter((name) => name.endsWith(copySuffix));
  return names.flatMap((name) => parseSnapshotId(basename(name, copySuffix)) ?? []);
}
