import { mkdir, readdir, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../../kernel/call/errno.ts';
import { DirectorySync } from '../../../kernel/file/file.ts';
import { parseVolumeId, type VolumeId } from '../../../volume/id.ts';
import { parseRecord, serializeRecord, type VolumeRecord } from '../../../volume/record.ts';
import { parseStored } from '../../../volume/stored-json.ts';
import { replaceFile } from '../../records/durable-file.ts';

/** What is known of a volume while its disk is not here. The truth is the label of the disk. */
export interface Note {
  readonly diskId: string;
  /** Which disk to look for. */
  readonly words: string;
  readonly record: VolumeRecord;
  /** It was deleted while its disk was away: it goes when that comes back. */
  readonly isDeleted: boolean;
}

const storedNote = z.strictObject({
  format: z.literal(1),
  diskId: z.uuid(),
  words: z.string(),
  record: z.string(),
  isDeleted: z.boolean(),
});

/** On the node's own disk, in the driver's directory. Lost, they are made anew from the disks that are here. */
export class Notes {
  readonly #queue: DiskQueue;
  readonly #directory: string;
  readonly #syncs = new DirectorySync();
  readonly #notes = new Map<VolumeId, Note>();

  private constructor(queue: DiskQueue, directory: string) {
    this.#queue = queue;
    this.#directory = directory;
  }

  static async open(queue: DiskQueue, directory: string): Promise<Notes> {
    await queue.run(() => mkdir(directory, { recursive: true, mode: 0o700 }));
    return Notes.look(queue, directory);
  }

  /** The same for who only looks. */
  static async look(queue: DiskQueue, directory: string): Promise<Notes> {
    const notes = new Notes(queue, directory);
    const names = await queue.run(() => readdir(directory)).catch(ignoreMissing);
    for (const name of names ?? []) {
      const id = parseVolumeId(name.replace(/\.json$/, ''));
      if (id !== undefined) await notes.#read(id);
    }
    return notes;
  }

  get(id: VolumeId): Note | undefined {
    return this.#notes.get(id);
  }

  all(): readonly Note[] {
    return [...this.#notes.values()];
  }

  async write(note: Note): Promise<void> {
    const text = JSON.stringify({ format: 1, ...note, record: serializeRecord(note.record) });
    await replaceFile(this.#queue, this.#syncs, this.#path(note.record.id), text);
    this.#notes.set(note.record.id, note);
  }

  async remove(id: VolumeId): Promise<void> {
    if (!this.#notes.delete(id)) return;
    await this.#queue.run(() => unlink(this.#path(id))).catch(ignoreMissing);
    await this.#syncs.sync(this.#queue, this.#directory);
  }

  async #read(id: VolumeId): Promise<void> {
    const path = this.#path(id);
    const text = await this.#queue.run(() => readFile(path, 'utf8'));
    const { diskId, isDeleted, record, words } = parseStored(storedNote, text, path);
    this.#notes.set(id, { diskId, isDeleted, words, record: parseRecord(record, path) });
  }

  #path(id: VolumeId): string {
    return join(this.#directory, `${id}.json`);
  }
}
