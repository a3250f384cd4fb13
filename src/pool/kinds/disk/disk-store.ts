import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { InternalError } from '../../../volume/errors.ts';
import { type GroupId, parseVolumeId, type SnapshotId, type VolumeId } from '../../../volume/id.ts';
import type { VolumeRecord } from '../../../volume/record.ts';
import type { ReadRecords, RecordStore } from '../../backend.ts';
import type { TrashContents } from '../../catalog/trash-entry.ts';
import { overwriteFile } from '../../records/durable-file.ts';
import { ageFileName } from '../../records/layout.ts';
import type { Disks } from './disks.ts';
import type { Notes } from './notes.ts';

const none = { records: [], damaged: [] };

export interface DiskStoreParts {
  readonly queue: DiskQueue;
  readonly disks: Disks;
  readonly notes: Notes;
  /** Of the driver's own, for this pool. */
  readonly directory: string;
}

/** Records in the labels of disks; of disks that are away, as they were noted. */
export class DiskStore implements RecordStore {
  readonly #parts: DiskStoreParts;

  constructor(parts: DiskStoreParts) {
    this.#parts = parts;
  }

  set onChange(listener: (ids: readonly VolumeId[]) => void) {
    this.#parts.disks.onChange = listener;
  }

  async readVolumes(): Promise<ReadRecords<VolumeId, VolumeRecord>> {
    const { disks, notes } = this.#parts;
    const here = disks.own().flatMap(({ use }) => (use.state === 'volume' ? [use.record] : []));
    const known = new Set(here.map(({ id }) => id));
    const away = notes
      .all()
      .filter(({ diskId, isDeleted, record }) => !(isDeleted || known.has(record.id)) && !this.#isHere(diskId));
    return { records: [...here, ...away.map(({ record }) => record)], damaged: [] };
  }

  async readVolume(id: VolumeId): Promise<ReadRecords<VolumeId, VolumeRecord>> {
    const { disks, notes } = this.#parts;
    for (const own of disks.own()) {
      const use = 'id' in own.use || own.use.state === 'volume' ? await own.reread() : own.use;
      if (use.state === 'volume' && use.record.id === id) return { records: [use.record], damaged: [] };
    }
    const note = notes.get(id);
    if (note === undefined || note.isDeleted || this.#isHere(note.diskId)) return none;
    return { records: [note.record], damaged: [] };
  }

  async readSnapshots() {
    return none;
  }

  async readSnapshot() {
    return none;
  }

  async readGroups() {
    return none;
  }

  async readGroup() {
    return none;
  }

  async readTrash(id?: VolumeId | SnapshotId): Promise<TrashContents> {
    const contents: TrashContents = { kept: [], unkept: [], unreadable: [] };
    for (const { use } of this.#parts.disks.own()) {
      if (use.state !== 'trash' || (id !== undefined && use.id !== id)) continue;
      const { deletion, record, ref } = use;
      if (deletion === undefined || record === undefined) contents.unkept.push(ref);
      else contents.kept.push({ ...deletion, ref, record });
    }
    return contents;
  }

  async writeVolume(record: VolumeRecord): Promise<void> {
    const { disks, notes } = this.#parts;
    const own = disks.require(record.id);
    await own.write({ state: 'volume', record });
    const { diskId, words } = own;
    await notes.write({ diskId, words, record, isDeleted: false });
  }

  async writeGroup(): Promise<void> {
    throw new InternalError('disks have no snapshots, and so no groups of them.');
  }

  async removeGroup(): Promise<void> {}

  async sync(id: VolumeId | SnapshotId | GroupId): Promise<void> {
    const volumeId = parseVolumeId(id);
    const own = volumeId === undefined ? undefined : this.#parts.disks.find(volumeId);
    await own?.sync();
  }

  async readAge(): Promise<string | undefined> {
    try {
      return await this.#parts.queue.run(() => readFile(this.#agePath, 'utf8'));
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return undefined;
      throw error;
    }
  }

  async writeAge(note: string): Promise<void> {
    await overwriteFile(this.#parts.queue, this.#agePath, note);
  }

  get #agePath(): string {
    return join(this.#parts.directory, ageFileName);
  }

  #isHere(diskId: string): boolean {
    return this.#parts.disks.own().some((own) => own.diskId === diskId);
  }
}
