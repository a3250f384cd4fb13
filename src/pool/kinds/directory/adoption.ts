import { mkdir, rename } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type Descriptor, openReadOnly } from '../../../kernel/call/descriptor.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { syncFilesystem } from '../../../kernel/file/filesystem.ts';
import { move, type NamedIn } from '../../../kernel/file/move.ts';
import { openBeneath, statusOf } from '../../../kernel/file/path.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import type { VolumeId } from '../../../volume/id.ts';
import { serializeRecord, type VolumeRecord } from '../../../volume/record.ts';
import { step } from '../../../volume/step.ts';
import type { Adoptable, Adoption, Provisioner } from '../../backend.ts';
import type { TrashRef } from '../../indexes/trash-entry.ts';
import { writeNewFile } from '../../records/durable-file.ts';
import { moveAway } from '../../records/file-removal.ts';
import { isThere } from '../../records/gone.ts';
import { refuseMountsInside } from '../../records/mounts-inside.ts';
import { explainMove, openAdoptable, openParent, refuseHolders, taken } from './adoptable.ts';
import { surveyTree } from './adoptable-tree.ts';
import type { DirectoryParts } from './directory-backend.ts';

/**
 * Directories that were there before become volumes, and volumes directories, each by one rename. The volume without data
 * is made first, so that nothing of the user's ever lies where a start removes what it finds.
 */
export class DirectoryAdoption implements Adoption {
  readonly #parts: DirectoryParts;
  readonly #provisioner: Provisioner;

  constructor(parts: DirectoryParts, provisioner: Provisioner) {
    this.#parts = parts;
    this.#provisioner = provisioner;
  }

  async examine(path: string): Promise<Adoptable> {
    const { projects, queue } = this.#parts;
    const { identity } = await this.#identify(path);
    await refuseMountsInside(queue, path, path);
    await refuseHolders(path);
    await using directory = await openAdoptable(this.#parts, path);
    const { usedBytes } = await surveyTree(queue, directory, { hasProjects: projects !== undefined });
    return {
      ...{ path, identity, usedBytes },
      content: { type: 'directory' },
      provisioning: 'thin',
      // It has none; what records want is a number.
      blockSizeBytes: 4096,
    };
  }

  async adopt({ identity, path }: Adoptable, record: VolumeRecord): Promise<void> {
    const { handovers, layout, projects } = this.#parts;
    const { id } = record;
    const draft = layout.newDraft(id);
    // To look through a large tree takes minutes.
    await refuseHolders(path);
    try {
      await step('adopt/draft', () => this.#draft(draft, record, identity));
      await step('adopt/commit', () => this.#commit(draft, id));
      await step('adopt/move', () => this.#moveIn(id, path, identity));
    } catch (error) {
      await this.#undo(draft, id);
      throw error;
    }
    await handovers.settle(id);
    await projects?.limitIn(layout.volume(id), record.sizeBytes);
  }

  async release({ id }: VolumeRecord, path: string): Promise<TrashRef | undefined> {
    const { handovers, layout, projects, queue } = this.#parts;
    await refuseMountsInside(queue, layout.data(id), `volume ${id}`);
    await refuseHolders(layout.data(id), process.pid);
    // Before anything is changed.
    await using parent = await openParent(this.#parts, path);
    await this.#refuseTaken(parent, path);
    // A tree that cannot be taken out of its project to the end would be left in the middle.
    if (projects !== undefined) await this.#refuseUnwalkable(id);
    try {
      const { inode } = await statusOf(queue, layout.data(id));
      await step('release/mark', () => handovers.begin(id, { inode: inode.toString() }));
      await step('release/clear', async () => projects?.leave(layout.volume(id)));
      await step('release/move', () => this.#moveOut(id, parent, path));
    } catch (error) {
      const isHere = await isThere(queue, layout.data(id)).catch(() => false);
      // A handover that cannot be settled now is settled before the next call for the volume, or at the next start.
      if (isHere) await handovers.settle(id).catch(() => undefined);
      throw error;
    }
    const { ref } = await this.#provisioner.removeVolume(id, undefined);
    await handovers.end(id);
    return ref;
  }

  async #refuseUnwalkable(id: VolumeId): Promise<void> {
    const { layout, queue } = this.#parts;
    await using data = await openReadOnly(queue, layout.data(id));
    await surveyTree(queue, data, { hasProjects: false });
  }

  async reconcile(): Promise<readonly VolumeId[]> {
    const { dataless, ids } = await this.#parts.handovers.reconcile();
    // The sweep that follows destroys everything that this puts into the trash.
    for (const id of dataless) {
      await this.#provisioner.removeVolume(id, undefined);
      await this.#parts.handovers.end(id);
    }
    return ids;
  }

  async #identify(path: string): Promise<{ readonly identity: string }> {
    await using directory = await openAdoptable(this.#parts, path);
    return { identity: (await statusOf(this.#parts.queue, directory)).inode.toString() };
  }

  async #draft(draft: string, record: VolumeRecord, inode: string): Promise<void> {
    const { handovers, projects, queue, syncs } = this.#parts;
    await queue.run(() => mkdir(draft, { mode: 0o700 }));
    await projects?.reserve(draft);
    await writeNewFile(queue, join(draft, 'volume.json'), serializeRecord(record));
    await syncs.sync(queue, draft);
    await handovers.begin(record.id, { inode });
  }

  /** A volume without data: a start removes it. */
  async #commit(draft: string, id: VolumeId): Promise<void> {
    const { layout, queue, syncs } = this.#parts;
    await queue.run(() => rename(draft, layout.volume(id)));
    await syncs.sync(queue, layout.volumes);
  }

  async #moveIn(id: VolumeId, path: string, identity: string): Promise<void> {
    const { layout, queue } = this.#parts;
    await using parent = await openParent(this.#parts, path);
    await using volume = await openReadOnly(queue, layout.volume(id));
    const [there, here] = [
      { directory: parent, name: basename(path) },
      { directory: volume, name: 'data' },
    ];
    await move(queue, there, here).catch((error) => {
      throw explainMove(error, this.#parts.name, path);
    });
    await using data = await openBeneath(queue, volume, 'data').catch(() => undefined);
    const status = data && (await statusOf(queue, data));
    if (status?.kind !== 'directory' || status.inode.toString() !== identity) {
      await move(queue, here, there);
      throw new FailedPrecondition(`${path} was replaced by something else just now: it is as it was. Try again.`);
    }
    await this.#syncOrMoveBack(volume, here, there);
  }

  async #moveOut(id: VolumeId, parent: Descriptor, path: string): Promise<void> {
    const { layout, queue } = this.#parts;
    await using volume = await openReadOnly(queue, layout.volume(id));
    const [here, there] = [
      { directory: volume, name: 'data' },
      { directory: parent, name: basename(path) },
    ];
    await move(queue, here, there).catch((error) => {
      throw explainMove(error, this.#parts.name, path);
    });
    await this.#syncOrMoveBack(volume, there, here);
  }

  /**
   * Makes a move durable, in both directories, whatever filesystem it is. If that fails, all is where it was: the same
   * command can be given again, and what a start finds after a crash it settles by the note.
   */
  async #syncOrMoveBack(volume: Descriptor, moved: NamedIn, back: NamedIn): Promise<void> {
    const { queue } = this.#parts;
    try {
      await syncFilesystem(queue, volume);
    } catch (error) {
      await move(queue, moved, back).catch(() => undefined);
      throw error;
    }
  }

  /** Unless it has its data by now: then it is a volume. */
  async #undo(draft: string, id: VolumeId): Promise<void> {
    const { handovers, layout, queue } = this.#parts;
    const hasVolume = await isThere(queue, layout.volume(id));
    if (hasVolume && (await isThere(queue, layout.data(id)))) return;
    // After a failure the catalog looks at the trash, and destroys its entries.
    await moveAway(queue, hasVolume ? layout.volume(id) : draft, layout.newTrash(id));
    await handovers.end(id);
  }

  /** The rename would say so, too; but by then the tree has left its project. */
  async #refuseTaken(parent: Descriptor, path: string): Promise<void> {
    try {
      await using _there = await openBeneath(this.#parts.queue, parent, basename(path));
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return;
      if (!isErrno(error, 'ELOOP')) throw error;
    }
    throw taken(path);
  }
}
