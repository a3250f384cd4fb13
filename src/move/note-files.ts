import { mkdir, readdir, readFile, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../kernel/call/errno.ts';
import { DirectorySync } from '../kernel/file/file.ts';
import { replaceFile } from '../pool/records/durable-file.ts';

const suffix = '.json';

/** Notes of one sort in a directory of the driver: a file each. The directory is made with the first one. */
export class NoteFiles<Note> {
  readonly #directory: string;
  readonly #queue: DiskQueue;
  readonly #parse: (text: string, path: string) => Note;
  readonly #syncs = new DirectorySync();

  /** @param parse throws if a note cannot be read */
  constructor(directory: string, queue: DiskQueue, parse: (text: string, path: string) => Note) {
    this.#directory = directory;
    this.#queue = queue;
    this.#parse = parse;
  }

  /** @returns those that can be read, by name, and why others cannot */
  async read(): Promise<{ readonly notes: ReadonlyMap<string, Note>; readonly problems: readonly unknown[] }> {
    const files = (await this.#queue.run(() => readdir(this.#directory)).catch(ignoreMissing)) ?? [];
    const notes = new Map<string, Note>();
    const problems: unknown[] = [];
    for (const file of files.filter((each) => each.endsWith(suffix))) {
      try {
        const path = join(this.#directory, file);
        const text = await this.#queue.run(() => readFile(path, 'utf8'));
        notes.set(file.slice(0, -suffix.length), this.#parse(text, path));
      } catch (error) {
        problems.push(error);
      }
    }
    return { notes, problems };
  }

  /** Durable when it returns. */
  async write(name: string, text: string): Promise<void> {
    await this.#queue.run(() => mkdir(this.#directory, { mode: 0o700, recursive: true }));
    await this.#syncs.sync(this.#queue, dirname(this.#directory));
    await replaceFile(this.#queue, this.#syncs, this.#path(name), text);
  }

  /** Gone is fine. */
  async remove(name: string): Promise<void> {
    await this.#queue.run(() => unlink(this.#path(name))).catch(ignoreMissing);
  }

  #path(name: string): string {
    return join(this.#directory, `${name}${suffix}`);
  }
}
