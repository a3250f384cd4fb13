import { constants } from 'node:fs';
import { type Descriptor, openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { createFile, type DirectorySync, syncFile, writeAt, writeOut } from '../../kernel/file/file.ts';
import { finishAll } from '../../volume/flow/finish-all.ts';
import { writeNewFile } from './durable-file.ts';

/**
 * Puts a draft on the disk before the rename that commits it: after a power cut the rename must not be there without the
 * content and names that came before it. Where the filesystem has one journal, the journal keeps that order: content only
 * has to be written out, and the sync of the directory after the rename makes all of it durable, by one flush of the disk.
 * Elsewhere each file and directory is synced (fsync(2)).
 */
export class CommitOrder {
  readonly #queue: DiskQueue;
  readonly #syncs: DirectorySync;
  readonly #hasOneJournal: boolean;

  /** @param hasOneJournal as `kernel/file/journal.ts` finds it; false is right for every filesystem */
  constructor(queue: DiskQueue, syncs: DirectorySync, hasOneJournal: boolean) {
    this.#queue = queue;
    this.#syncs = syncs;
    this.#hasOneJournal = hasOneJournal;
  }

  /** Content that was written to a file. */
  async content(file: Descriptor | string): Promise<void> {
    if (!this.#hasOneJournal) return syncFile(this.#queue, file);
    if (typeof file !== 'string') return writeOut(this.#queue, file);
    await using opened = await openFile(this.#queue, file, constants.O_RDONLY);
    await writeOut(this.#queue, opened);
  }

  /** A new file with its content. Fails if it exists. */
  async newFile(path: string, text: string): Promise<void> {
    if (!this.#hasOneJournal) return writeNewFile(this.#queue, path, text);
    const file = await createFile(this.#queue, path);
    try {
      await writeAt(this.#queue, file, Buffer.from(text), 0n);
      await writeOut(this.#queue, file);
    } finally {
      file.closeLater();
    }
  }

  /** Names that were made in a directory. */
  async names(directory: string): Promise<void> {
    if (!this.#hasOneJournal) await this.#syncs.sync(this.#queue, directory);
  }

  /** Makes a rename between two directories durable. */
  async moved(one: string, other: string): Promise<void> {
    // One commit has both.
    const directories = this.#hasOneJournal ? [one] : [one, other];
    await finishAll(directories.map((directory) => this.#syncs.sync(this.#queue, directory)));
  }
}
