import { mkdir, readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../kernel/call/errno.ts';
import { DirectorySync } from '../../kernel/file/file.ts';
import { AlreadyExists, InternalError } from '../../volume/errors.ts';
import { kindOf, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import type { CopyMark, Noted } from '../../volume/move/rule.ts';
import { step } from '../../volume/step.ts';
import { parseStored } from '../../volume/stored-json.ts';
import { removeFile, replaceFile } from '../records/durable-file.ts';

const storedNote = z.strictObject({
  format: z.literal(1),
  generation: z.int().positive(),
  at: z.string().optional().describe('the other node that has it'),
  deleted: z
    .string()
    .optional()
    .describe(
      'the time of the snapshot, which was deleted here; or of its deletion, or that of the volume, if no pool had it',
    ),
});

/** The note, and the time of a snapshot that was deleted, or of the deletion: each copy of a snapshot that comes back is an old one. */
export interface KnownNote extends Noted {
  readonly deleted?: string | undefined;
}

/**
 * The valid generation of each volume and snapshot that has moved away from a pool of this node (`volume/move/rule.ts`). It lies on the
 * node's own disk: when a pool's disk is back as it was before, its copy is known to be an old one. All pools of the node
 * share what this process knows of it, which is read when a pool is opened: nothing else writes there.
 */
export class Generations {
  /** For each directory, the texts of its notes by their file names, or why one cannot be read. */
  static readonly #known = new Map<string, Promise<Map<string, string | Error>>>();
  /** The notes whose last write has failed: the disk may have them, or not. */
  static readonly #unsure = new Set<string>();
  readonly #directory: string;
  readonly #node: string;
  readonly #queue: DiskQueue;
  readonly #syncs = new DirectorySync();

  private constructor(directory: string, node: string, queue: DiskQueue) {
    this.#directory = directory;
    this.#node = node;
    this.#queue = queue;
  }

  /** @param node the name of this one */
  static async open(dataDirectory: string, node: string, queue: DiskQueue): Promise<Generations> {
    const directory = join(dataDirectory, 'moved');
    const before = Generations.#known.get(directory);
    // At once: notes that are written meanwhile come on top.
    const reading = readAll(directory, queue);
    Generations.#known.set(directory, reading);
    try {
      await reading;
    } catch (error) {
      if (before !== undefined) Generations.#known.set(directory, before);
      else Generations.#known.delete(directory);
      throw error;
    }
    return new Generations(directory, node, queue);
  }

  /** 0: it never moved. @throws DataLoss if the note cannot be read */
  async read(id: SnapshotId | VolumeId): Promise<number> {
    return (await this.noted(id)).generation;
  }

  /** Like `read`, with the other node that the volume has moved to. */
  async noted(id: SnapshotId | VolumeId): Promise<KnownNote> {
    const path = this.#path(id);
    const known = await this.#texts();
    let text = known.get(fileNameOf(id));
    if (text instanceof Error) {
      text = await this.#queue.run(() => readFile(path, 'utf8'));
      known.set(fileNameOf(id), text);
    }
    const node = this.#node;
    if (text === undefined) return { generation: 0, node };
    const { at, deleted, generation } = parseStored(storedNote, text, path);
    return { generation, node, ...(at !== undefined && { at }), ...(deleted !== undefined && { deleted }) };
  }

  /** True if that generation is noted, or a later one, durably. */
  async isNoted(id: SnapshotId | VolumeId, generation: number): Promise<boolean> {
    return (await this.read(id)) >= generation && !Generations.#unsure.has(this.#path(id));
  }

  /** Durable when it returns. @param at the other node that the volume goes to */
  write(id: SnapshotId | VolumeId, generation: number, at?: string): Promise<void> {
    return this.#write(id, { generation, at });
  }

  /**
   * A snapshot that has moved is about to be deleted, or a volume of which no pool has a copy. Durable when it returns.
   * @param generation of a snapshot: later than that of each copy
   */
  writeDeleted(id: SnapshotId | VolumeId, generation: number, deleted: string): Promise<void> {
    return this.#write(id, { generation, deleted });
  }

  async #write(id: SnapshotId | VolumeId, note: Omit<z.infer<typeof storedNote>, 'format'>): Promise<void> {
    await this.#queue.run(() => mkdir(this.#directory, { mode: 0o700, recursive: true }));
    await this.#syncs.sync(this.#queue, dirname(this.#directory));
    const text = JSON.stringify({ format: 1, ...note });
    const path = this.#path(id);
    Generations.#unsure.add(path);
    try {
      await replaceFile(this.#queue, this.#syncs, path, text);
      Generations.#unsure.delete(path);
    } finally {
      // A write that failed may be on the disk: the copy is not used as if it were not.
      (await this.#texts()).set(fileNameOf(id), text);
    }
  }

  /**
   * Notes what arrives in a pool of this node. Before the commit, by which a disk may have it that goes away and comes back later. After it, as
   * an earlier note may say that it has gone from here.
   * @param from the node that it comes from; undefined: a pool of this one
   */
  async arrive(
    id: SnapshotId | VolumeId,
    { commit, from, mark }: { readonly mark: CopyMark; readonly from: string | undefined; commit(): Promise<void> },
  ): Promise<void> {
    const { at, generation } = await this.noted(id);
    // Within a node that was noted when it was handed over. Otherwise it is written again: an earlier try may have failed to.
    if (from !== undefined || at !== undefined || generation !== mark.generation) {
      await step('move/generation', () => this.write(id, mark.generation, from));
    }
    await commit();
    await this.arrived(id, mark);
  }

  /** Notes that it is on this node, if that is not noted yet. The caller has claimed it, and has its mark. */
  async arrived(id: SnapshotId | VolumeId, mark: CopyMark): Promise<void> {
    const { at, generation } = await this.noted(id);
    const isHere = at === undefined && (await this.isNoted(id, generation));
    if (isHere || generation === 0 || generation > mark.generation) return;
    await step('move/generation', () => this.write(id, mark.generation));
  }

  /** @throws AlreadyExists if the object is in another pool, which may not be open: no second one is made under its id */
  async refuseMoved(id: SnapshotId | VolumeId): Promise<void> {
    const { at, deleted, generation } = await this.noted(id);
    if (generation === 0 || deleted !== undefined) return;
    throw new AlreadyExists(
      at === undefined
        ? `${kindOf(id)} ${id} is in a pool of this node that is not open, or has another disk: open that pool, delete that ${kindOf(id)}, or choose another name for the new one.`
        : `${kindOf(id)} ${id} has moved to node ${at}: choose another name for the new one.`,
    );
  }

  /** The object was deleted here. Before that an older copy, on a disk that comes back just then, is known by its note. */
  async forget(id: SnapshotId | VolumeId): Promise<void> {
    // Also if it cannot be read.
    if (!(await this.#texts()).has(fileNameOf(id))) return;
    await removeFile(this.#queue, this.#syncs, this.#path(id));
    (await this.#texts()).delete(fileNameOf(id));
    Generations.#unsure.delete(this.#path(id));
  }

  async #texts(): Promise<Map<string, string | Error>> {
    const known = await Generations.#known.get(this.#directory);
    if (known === undefined) throw new InternalError(`${this.#directory} was not read.`);
    return known;
  }

  #path(id: SnapshotId | VolumeId): string {
    return join(this.#directory, fileNameOf(id));
  }
}

function fileNameOf(id: SnapshotId | VolumeId): string {
  return `${id}.json`;
}

async function readAll(directory: string, queue: DiskQueue): Promise<Map<string, string | Error>> {
  const names = (await queue.run(() => readdir(directory)).catch(ignoreMissing)) ?? [];
  const notes = names.filter((name) => name.endsWith('.json'));
  const texts = await Promise.all(
    notes.map(async (name): Promise<[string, string | Error]> => {
      const text = queue.run(() => readFile(join(directory, name), 'utf8'));
      return [name, await text.catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))))];
    }),
  );
  return new Map(texts);
}
