import { mkdir, readdir, readFile, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../../kernel/call/errno.ts';
import { DirectorySync } from '../../kernel/file/file.ts';
import { replaceFile } from '../../pool/records/durable-file.ts';
import { parseSnapshotId, type SnapshotId } from '../../volume/id.ts';
import { parseStored, unreadable } from '../../volume/stored-json.ts';

/** A snapshot that was deleted where it had moved, while a pool was not open that may have a copy that was left. */
export interface DeletedSnapshot {
  readonly id: SnapshotId;
  /** Another one may be taken under its name. */
  readonly createdAt: string;
  /** The generation of the copy that was deleted: each copy of an older one is removed when its pool is open. */
  readonly generation: number;
}

const stored = z.strictObject({
  format: z.literal(1),
  id: z.string(),
  createdAt: z.iso.datetime(),
  generation: z.int().positive(),
});

/** The notes of those, on the node's own disk. */
export class DeletedSnapshots {
  readonly #directory: string;
  readonly #queue: DiskQueue;
  readonly #syncs = new DirectorySync();
  readonly #known = new Map<string, DeletedSnapshot>();

  constructor(dataDirectory: string, queue: DiskQueue) {
    this.#directory = join(dataDirectory, 'deleted-snapshots');
    this.#queue = queue;
  }

  /** Before all else. @returns why some cannot be read */
  async read(): Promise<unknown[]> {
    const names = (await this.#queue.run(() => readdir(this.#directory)).catch(ignoreMissing)) ?? [];
    const problems: unknown[] = [];
    for (const name of names.filter((each) => each.endsWith('.json'))) {
      try {
        const path = join(this.#directory, name);
        this.#known.set(name, parse(await this.#queue.run(() => readFile(path, 'utf8')), path));
      } catch (error) {
        problems.push(error);
      }
    }
    return problems;
  }

  all(): DeletedSnapshot[] {
    return [...this.#known.values()];
  }

  /** Durable when it returns. */
  async write(deleted: DeletedSnapshot): Promise<void> {
    await this.#queue.run(() => mkdir(this.#directory, { mode: 0o700, recursive: true }));
    await this.#syncs.sync(this.#queue, dirname(this.#directory));
    const name = nameOf(deleted);
    const text = JSON.stringify({ format: 1, ...deleted });
    await replaceFile(this.#queue, this.#syncs, join(this.#directory, name), text);
    this.#known.set(name, deleted);
  }

  async forget(deleted: DeletedSnapshot): Promise<void> {
    const name = nameOf(deleted);
    await this.#queue.run(() => unlink(join(this.#directory, name))).catch(ignoreMissing);
    this.#known.delete(name);
  }
}

function nameOf({ createdAt, id }: DeletedSnapshot): string {
  return `${id}.${Date.parse(createdAt)}.json`;
}

function parse(text: string, where: string): DeletedSnapshot {
  const { createdAt, generation, id: idText } = parseStored(stored, text, where);
  const id = parseSnapshotId(idText);
  if (id === undefined) throw unreadable(where, 'its id has the wrong shape');
  return { id, createdAt, generation };
}
