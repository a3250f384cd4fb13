import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { DirectorySync } from '../../kernel/file/file.ts';
import { fileNameOf, type VolumeHandle } from '../../volume/handle.ts';
import type { ParsedInput } from '../../volume/parse-input.ts';
import { type StepName, step } from '../../volume/step.ts';
import type { PoolLog } from '../log.ts';
import { replaceFile } from '../records/durable-file.ts';

/** The notes that a kind keeps of its work for volumes. */
export interface HandleNoteFormat<Note> {
  readonly serialize: (note: Note) => string;
  readonly parse: (text: string) => ParsedInput<Note>;
  readonly steps: { readonly write: StepName; readonly remove: StepName };
  /** For the log: `a volume of a program`. */
  readonly subject: string;
}

const suffix = '.json';

/** Notes on volumes, one file each: durable before any work for the volume, and gone after all of it is undone. */
export class HandleNotes<Note extends { readonly handle: VolumeHandle }> {
  readonly #directory: string;
  readonly #queue: DiskQueue;
  readonly #format: HandleNoteFormat<Note>;
  readonly #syncs = new DirectorySync();
  readonly #notes = new Map<VolumeHandle, Note>();

  constructor(directory: string, queue: DiskQueue, format: HandleNoteFormat<Note>) {
    this.#directory = directory;
    this.#queue = queue;
    this.#format = format;
  }

  /** Reads those that are there. One that cannot be read is left as it is. */
  async load(log: PoolLog): Promise<void> {
    const { parse, subject } = this.#format;
    await this.#queue.run(() => mkdir(this.#directory, { recursive: true, mode: 0o700 }));
    const names = await this.#queue.run(() => readdir(this.#directory));
    for (const name of names.filter((each) => each.endsWith(suffix))) {
      const path = join(this.#directory, name);
      const note = parse(await this.#queue.run(() => readFile(path, 'utf8')));
      if ('mistakes' in note || `${fileNameOf(note.data.handle)}${suffix}` !== name) {
        const reason = 'mistakes' in note ? note.mistakes.join('; ') : 'it is about another volume';
        log.warn({ path, reason }, `cannot read the note on ${subject}`);
      } else this.#notes.set(note.data.handle, note.data);
    }
  }

  read(handle: VolumeHandle): Note | undefined {
    return this.#notes.get(handle);
  }

  all(): Note[] {
    return [...this.#notes.values()];
  }

  async write(note: Note): Promise<void> {
    const path = this.#path(note.handle);
    const text = this.#format.serialize(note);
    await step(this.#format.steps.write, () => replaceFile(this.#queue, this.#syncs, path, text));
    this.#notes.set(note.handle, note);
  }

  async remove(handle: VolumeHandle): Promise<void> {
    await step(this.#format.steps.remove, () => this.#queue.run(() => rm(this.#path(handle), { force: true })));
    this.#notes.delete(handle);
  }

  #path(handle: VolumeHandle): string {
    return join(this.#directory, `${fileNameOf(handle)}${suffix}`);
  }
}
