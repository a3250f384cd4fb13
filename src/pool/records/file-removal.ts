import { readdir, rename, stat, unlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../kernel/call/errno.ts';
import { syncDirectory } from '../../kernel/file/file.ts';
import { parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import { step } from '../../volume/step.ts';
import type { Provisioner, Removed } from '../backend.ts';
import type { Deletion, TrashEntry, TrashRef } from '../indexes/trash-entry.ts';
import { replaceFile } from './durable-file.ts';
import type { FileParts } from './file-store.ts';
import { isThere, unlessGone } from './gone.ts';
import { noteName } from './incoming-draft.ts';
import { copySuffix } from './layout.ts';
import { deletionFileName } from './trash-files.ts';

/** A copy that was not resumed for a week is of no use. */
const forgottenAfterMs = 7 * 24 * 3600_000;

type Removal = Pick<
  Provisioner,
  'discardDrafts' | 'leftDrafts' | 'removeVolume' | 'removeSnapshot' | 'restore' | 'mark'
>;

/** Removes and brings back what lies in directories: one rename each. Its place in the trash is a path. */
export abstract class FileRemoval<Parts extends FileParts> implements Removal {
  protected readonly parts: Parts;

  constructor(parts: Parts) {
    this.parts = parts;
  }

  /** The mark is written before the rename that deletes: what lies in the trash without one is destroyed. */
  async removeVolume(id: VolumeId, deletion: Deletion | undefined, mayBeMarked = true): Promise<Removed> {
    await this.parts.beforeChange?.();
    const { layout, order, queue } = this.parts;
    const ref = layout.newTrash(id);
    const isKept = deletion !== undefined && (await this.#markDeleted(id, deletion));
    const mark = join(layout.volume(id), deletionFileName);
    await step('remove/trash', async () => {
      // One that was cut short, or undone.
      if (deletion === undefined && mayBeMarked) await queue.run(() => unlink(mark)).catch(ignoreMissing);
      await this.#moveToTrash(layout.volume(id), ref);
      await order.moved(layout.volumes, layout.trash);
    });
    return { ref, isKept };
  }

  async removeSnapshot(id: SnapshotId): Promise<TrashRef> {
    await this.parts.beforeChange?.();
    const { layout, order } = this.parts;
    const ref = layout.newTrash(id);
    await this.#moveToTrash(layout.snapshot(id), ref);
    await order.moved(layout.snapshots, layout.trash);
    return ref;
  }

  async restore({ record, ref }: TrashEntry): Promise<void> {
    await this.parts.beforeChange?.();
    const { layout, order, queue } = this.parts;
    await queue.run(() => rename(ref, layout.volume(record.id)));
    await order.moved(layout.volumes, layout.trash);
  }

  async mark(ref: TrashRef, deletion: Deletion | undefined): Promise<void> {
    const { queue, syncs } = this.parts;
    const path = join(ref, deletionFileName);
    if (deletion !== undefined) return replaceFile(queue, syncs, path, JSON.stringify(deletion));
    await queue.run(() => unlink(path)).catch(ignoreMissing);
    await syncDirectory(queue, ref);
  }

  async discardDrafts(ids: ReadonlySet<VolumeId | SnapshotId>): Promise<TrashRef[]> {
    const { layout, queue } = this.parts;
    const moved: TrashRef[] = [];
    for (const name of await queue.run(() => readdir(layout.drafts))) {
      const id = idOfDraft(name);
      if (id === undefined || !ids.has(id) || !name.endsWith(copySuffix)) continue;
      const ref = await moveAway(queue, join(layout.drafts, name), layout.newTrash(id));
      if (ref !== undefined) moved.push(ref);
    }
    return moved;
  }

  async leftDrafts(): Promise<TrashRef[]> {
    const { layout, queue } = this.parts;
    const left: TrashRef[] = [];
    for (const name of await queue.run(() => readdir(layout.drafts))) {
      const path = join(layout.drafts, name);
      if (!name.endsWith(copySuffix)) {
        left.push(path);
        continue;
      }
      if (!(await isForgotten(queue, path))) continue;
      // The part that has come of a volume may be its last copy: its age says nothing.
      if (await isThere(queue, join(path, noteName))) continue;
      const id = idOfDraft(name);
      // The draft of a copy has a persistent name: the next such copy must not meet the queued one.
      const ref = id === undefined ? path : await moveAway(queue, path, layout.newTrash(id));
      if (ref !== undefined) left.push(ref);
    }
    return left;
  }

  /** @returns false if it was removed by hand: nothing is left to be kept */
  #markDeleted(id: VolumeId, deletion: Deletion): Promise<boolean> {
    const { layout, queue, reserve } = this.parts;
    const volume = layout.volume(id);
    return unlessGone(queue, volume, () =>
      step('remove/mark', () => reserve.withReserve(queue, () => this.mark(volume, deletion))),
    );
  }

  /** Removed by hand: it remains to forget it (DV05). */
  async #moveToTrash(path: string, ref: TrashRef): Promise<void> {
    const { queue, reserve } = this.parts;
    await unlessGone(queue, path, () => reserve.withReserve(queue, () => queue.run(() => rename(path, ref))));
  }
}

/** Takes a name away at once, so that it can be used again. @returns the new one, undefined if there was nothing */
export async function moveAway(queue: DiskQueue, path: string, trashed: string): Promise<TrashRef | undefined> {
  const isMoved = await unlessGone(queue, path, () => queue.run(() => rename(path, trashed)));
  return isMoved ? trashed : undefined;
}

function idOfDraft(name: string): VolumeId | SnapshotId | undefined {
  const text = basename(name, copySuffix);
  return parseVolumeId(text) ?? parseSnapshotId(text);
}

async function isForgotten(queue: DiskQueue, path: string): Promise<boolean> {
  const { mtimeMs } = await queue.run(() => stat(path));
  return Date.now() - mtimeMs > forgottenAfterMs;
}
