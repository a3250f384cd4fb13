import { createHmac } from 'node:crypto';
import { renameSync, unlinkSync, writeFileSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, statfs, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../kernel/call/errno.ts';
import { readIfThere } from '../kernel/file/file.ts';
import { filesystemType } from '../kernel/file/filesystem-type.ts';
import { bootId } from '../kernel/process/boot-id.ts';
import type { VolumeCapability, VolumeContent } from '../volume/capability.ts';
import { fileNameOf, parseHandle, type VolumeHandle } from '../volume/handle.ts';
import { parseVolumeId } from '../volume/id.ts';
import { parseJsonInput } from '../volume/parse-input.ts';
import { step } from '../volume/step.ts';
import type { FilesystemParameter } from './mount-options.ts';

/*
 * The kernel shows which mounts are where, but not which capability they were staged with. That much is kept beside it, so
 * that the same call can be distinguished from a different one (ST06, PB07, PB10). A publish needs no separate note: its
 * capability must be the staged one, and whether it is read-only the kernel shows. A note proves nothing: whether
 * something is mounted, the mount table says, and without a note the comparison is with that alone.
 */

/** The note of one volume's stage; nothing of it is true after a reboot. */
export interface StageNote {
  readonly path: string;
  /** Stands for the capability. */
  readonly digest: string;
}

/** The content of a volume's file. */
interface Note {
  readonly staging?: StageNote | undefined;
  /** Stands for the options that its filesystem was mounted with; it may live on elsewhere after it was unstaged. */
  readonly options?: string | undefined;
}

interface Loaded {
  readonly id: VolumeHandle;
  readonly note: Note;
}

const storedNote = z.strictObject({
  bootId: z.string(),
  /** For a volume whose id is not ours: the file's name is a hash. */
  handle: z.string().optional(),
  staging: z.strictObject({ path: z.string(), digest: z.string() }).optional(),
  options: z.string().optional(),
});

const suffix = '.json';

/** True if that volume was staged since the node has started, and not unstaged: also of a pool that is not there any more. */
export async function isStagedByNote({ directory }: NotesPlace, queue: DiskQueue, id: VolumeHandle): Promise<boolean> {
  const path = join(directory, `${fileNameOf(id)}${suffix}`);
  const text = await readIfThere(queue, path);
  if (text === undefined) return false;
  const parsed = parseJsonInput(storedNote, text);
  return !('data' in parsed) || (parsed.data.bootId === bootId() && parsed.data.staging !== undefined);
}

export interface NotesPlace {
  readonly directory: string;
  /** The directory of an earlier driver on this node, whose notes go on to be true. */
  readonly earlier?: string;
}

/**
 * The notes on this node's volumes, one file for each in a directory of the driver's own. They are written for the case
 * that the driver is restarted while the node lives on, so nothing here needs to reach the disk: no fsync.
 */
export class Notes {
  readonly #directory: string;
  readonly #queue: DiskQueue;
  readonly #bootId: string;
  /** true: the directory lies in memory, so a write takes less time than its way to another thread. */
  readonly #isInMemory: boolean;
  /** All there are: this process is the only one that writes them. */
  readonly #notes = new Map<VolumeHandle, Note>();
  #latest: { readonly text: string; readonly digest: string } | undefined;

  private constructor(directory: string, queue: DiskQueue, isInMemory: boolean) {
    this.#directory = directory;
    this.#queue = queue;
    this.#bootId = bootId();
    this.#isInMemory = isInMemory;
  }

  /** Makes the directory if need be, and removes what belongs to an earlier boot or was never finished. */
  static async open({ directory, earlier }: NotesPlace, queue: DiskQueue): Promise<Notes> {
    await queue.run(() => mkdir(directory, { recursive: true, mode: 0o700 }));
    const { type } = await queue.run(() => statfs(directory, { bigint: true }));
    const notes = new Notes(directory, queue, type === filesystemType.tmpfs);
    await notes.#loadAll(directory);
    if (earlier !== undefined && earlier !== directory) await notes.#move(earlier);
    return notes;
  }

  /** undefined: there is none, or none that can be understood. */
  read(id: VolumeHandle): StageNote | undefined {
    return this.#notes.get(id)?.staging;
  }

  /** The volumes that are staged, or were about to be. */
  staged(): VolumeHandle[] {
    return Array.from(this.#notes).flatMap(([id, { staging }]) => (staging === undefined ? [] : [id]));
  }

  /** A digest of the options that the volume's filesystem was mounted with last; undefined: not known. */
  optionsOf(id: VolumeHandle): string | undefined {
    return this.#notes.get(id)?.options;
  }

  /** The volume is staged, or about to be. */
  async write(id: VolumeHandle, staging: StageNote, options?: string): Promise<void> {
    await this.#write(id, { staging, options });
  }

  /** Whole or not at all: written beside its place, then renamed. */
  async #write(id: VolumeHandle, note: Note): Promise<void> {
    const path = this.#path(id);
    const draft = `${path}.draft`;
    const stored: z.infer<typeof storedNote> = {
      bootId: this.#bootId,
      ...(parseVolumeId(id) === undefined ? { handle: id } : {}),
      ...note,
    };
    const text = JSON.stringify(stored);
    await step('note/write', async () => {
      if (this.#isInMemory) {
        writeFileSync(draft, text, { mode: 0o600 });
        renameSync(draft, path);
        return;
      }
      await this.#queue.run(async () => {
        await writeFile(draft, text, { mode: 0o600 });
        await rename(draft, path);
      });
    });
    this.#notes.set(id, note);
  }

  /**
   * The volume is not staged any more. The options of a filesystem that lives on elsewhere are remembered by this process
   * alone: no call would remove a file about them when it has ended.
   */
  async forget(id: VolumeHandle, options?: string): Promise<void> {
    if (this.#notes.get(id)?.staging !== undefined) {
      const path = this.#path(id);
      const remove = async () => (this.#isInMemory ? unlinkSync(path) : this.#queue.run(() => unlink(path)));
      await step('note/write', remove).catch(ignoreMissing);
    }
    if (options === undefined) this.#notes.delete(id);
    else this.#notes.set(id, { options });
  }

  /**
   * Stands for a capability: equal for equal ones, and nothing can be read out of it, for mount flags may be sensitive
   * (X02). A filesystem that is left to us counts as the one the volume has (A06).
   */
  digest(capability: VolumeCapability, content: VolumeContent): string {
    const { access, mode } = capability;
    // In their order: of two that contradict each other the last one wins.
    const flags = access.type === 'mount' ? access.mountFlags.join(',') : '';
    const text = JSON.stringify([mode, content.type === 'mount' ? content.fsType : content.type, flags]);
    // Most volumes of a node are used in the same way.
    if (this.#latest?.text !== text) this.#latest = { text, digest: this.#hash(text) };
    return this.#latest.digest;
  }

  /** The same for the options of a filesystem alone: those of the mount are each mount's own. */
  digestOfOptions(parameters: readonly FilesystemParameter[]): string {
    return this.#hash(JSON.stringify(parameters));
  }

  #hash(text: string): string {
    return createHmac('sha256', this.#bootId).update(text).digest('base64url');
  }

  #path(id: VolumeHandle): string {
    return join(this.#directory, `${fileNameOf(id)}${suffix}`);
  }

  async #loadAll(directory: string): Promise<void> {
    const names = await this.#queue.run(() => readdir(directory));
    await Promise.all(
      names.map(async (name) => {
        const path = join(directory, name);
        const loaded = await this.#load(name, path);
        if (loaded !== undefined) this.#notes.set(loaded.id, loaded.note);
        else await this.#queue.run(() => rm(path, { force: true }));
      }),
    );
  }

  /** Takes over the notes of another directory. They are later than those here: a driver that knew no other place wrote them. */
  async #move(from: string): Promise<void> {
    const names = (await this.#queue.run(() => readdir(from)).catch(ignoreMissing)) ?? [];
    for (const name of names) {
      const path = join(from, name);
      const loaded = await this.#load(name, path);
      if (loaded !== undefined) await this.#write(loaded.id, loaded.note);
      await this.#queue.run(() => rm(path, { force: true }));
    }
  }

  async #load(name: string, path: string): Promise<Loaded | undefined> {
    if (!name.endsWith(suffix)) return undefined;
    return this.#parse(name.slice(0, -suffix.length), await this.#queue.run(() => readFile(path, 'utf8')));
  }

  #parse(fileName: string, text: string): Loaded | undefined {
    const parsed = parseJsonInput(storedNote, text);
    if (!('data' in parsed) || parsed.data.bootId !== this.#bootId) return undefined;
    const { handle = fileName, options, staging } = parsed.data;
    const id = parseHandle(handle);
    return id === undefined || fileNameOf(id) !== fileName ? undefined : { id, note: { options, staging } };
  }
}
