import { join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { parseSnapshotId, type SnapshotId } from '../../volume/id.ts';
import { parseStored, unreadable } from '../../volume/stored-json.ts';
import type { NamedSnapshot } from '../job.ts';
import { NoteFiles } from '../note-files.ts';

/** A snapshot that was deleted where it had moved, or was about to leave, or that another node has taken back, while pools were not open that may have a copy. */
export interface DeletedSnapshot {
  readonly id: SnapshotId;
  /** Another one may be taken under its name. */
  readonly createdAt: string;
  /** The generation of the copy that was deleted, or taken back: each copy of an older one is removed when its pool is open. */
  readonly generation: number;
  /** The pools that were not open: nothing was removed there. */
  readonly pools: readonly string[];
}

const stored = z.strictObject({
  format: z.literal(1),
  id: z.string(),
  createdAt: z.iso.datetime(),
  generation: z.int().nonnegative(),
  pools: z.array(z.string()).optional().describe('an earlier driver has not named them: each pool'),
  moveId: z.string().optional().describe('of an earlier driver'),
});

/** The notes of those, on the node's own disk. */
export class DeletedSnapshots {
  readonly #files: NoteFiles<DeletedSnapshot>;
  readonly #known = new Map<string, DeletedSnapshot>();

  /** @param names of all pools */
  constructor(dataDirectory: string, queue: DiskQueue, names: () => readonly string[]) {
    const read = (text: string, where: string) => parse(text, where, names());
    this.#files = new NoteFiles(join(dataDirectory, 'deleted-snapshots'), queue, read);
  }

  /** Before all else. @returns why some cannot be read */
  async read(): Promise<readonly unknown[]> {
    const { notes, problems } = await this.#files.read();
    for (const [name, note] of notes) this.#known.set(name, note);
    return problems;
  }

  all(): DeletedSnapshot[] {
    return [...this.#known.values()];
  }

  /** True if a copy that may be in that pool goes once that is open. */
  isNoted({ createdAt, id, to }: NamedSnapshot & { readonly to: string }): boolean {
    return this.#known.get(nameOf({ id, createdAt }))?.pools.includes(to) === true;
  }

  /** False if another look has removed what there was of it meanwhile. */
  has(deleted: DeletedSnapshot): boolean {
    return this.#known.get(nameOf(deleted)) === deleted;
  }

  /** Durable when it returns. */
  async write(deleted: DeletedSnapshot): Promise<void> {
    const name = nameOf(deleted);
    await this.#files.write(name, JSON.stringify({ format: 1, ...deleted }));
    this.#known.set(name, deleted);
  }

  /** Nothing of it is left in these pools. */
  async removedFrom(deleted: DeletedSnapshot, pools: readonly string[]): Promise<void> {
    const name = nameOf(deleted);
    const left = deleted.pools.filter((pool) => !pools.includes(pool));
    if (left.length > 0) {
      if (left.length < deleted.pools.length) await this.write({ ...deleted, pools: left });
      return;
    }
    await this.#files.remove(name);
    this.#known.delete(name);
  }
}

function nameOf({ createdAt, id }: NamedSnapshot): string {
  return `${id}.${Date.parse(createdAt)}`;
}

function parse(text: string, where: string, names: readonly string[]): DeletedSnapshot {
  const { createdAt, generation, id: idText, pools = names } = parseStored(stored, text, where);
  const id = parseSnapshotId(idText);
  if (id === undefined) throw unreadable(where, 'its id has the wrong shape');
  return { id, createdAt, generation, pools };
}
