import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { DirectorySync, readIfThere } from '../../../../kernel/file/file.ts';
import { indented, parseStored } from '../../../../volume/stored-json.ts';
import { removeFile, replaceFile } from '../../../records/durable-file.ts';
import { poolsDirectory } from '../../../records/pools-directory.ts';
import { fromStored, type Payload, storedPayload, toStored } from './payload.ts';

/** The identity of a filesystem. */
export interface FilesystemName {
  /** The name that libblkid gives. */
  readonly type: string;
  readonly uuid: string;
}

/** The note about a disk that was adopted. */
export interface Note {
  readonly payload: Payload;
  /** The filesystem that it held then; undefined: none. */
  readonly filesystem: FilesystemName | undefined;
}

const suffix = '.adopted';

const document = z.strictObject({
  format: z.literal(1),
  filesystem: z.strictObject({ type: z.string(), uuid: z.string() }).optional(),
  label: storedPayload,
});

/**
 * The label of a disk that was adopted. It lies in the driver's own directory, as such a disk has no room for one: if it
 * is lost, the disk is what it was before, and can be adopted again.
 */
export class NoteFile {
  readonly path: string;
  /** The driver that runs the pool has it locked. */
  readonly lockPath: string;
  readonly #queue: DiskQueue;
  readonly #syncs = new DirectorySync();

  constructor(queue: DiskQueue, dataDirectory: string, poolName: string) {
    this.#queue = queue;
    this.path = join(poolsDirectory(dataDirectory), `${poolName}${suffix}`);
    this.lockPath = `${this.path}.lock`;
  }

  /** @returns undefined if nothing was adopted @throws DataLoss */
  async read(): Promise<Note | undefined> {
    const text = await readIfThere(this.#queue, this.path);
    if (text === undefined) return undefined;
    const { filesystem, label } = parseStored(document, text, `in ${this.path}`);
    return { filesystem, payload: fromStored(label) };
  }

  /** @returns the path of the note by which another pool of this node has adopted a disk of this name @throws DataLoss if one cannot be read */
  async otherWith(diskName: string): Promise<string | undefined> {
    const directory = dirname(this.path);
    for (const name of await this.#queue.run(() => readdir(directory))) {
      if (!name.endsWith(suffix)) continue;
      const other = new NoteFile(this.#queue, dirname(directory), name.slice(0, -suffix.length));
      if (other.path !== this.path && (await other.read())?.payload.disk.name === diskName) return other.path;
    }
    return undefined;
  }

  async write({ filesystem, payload }: Note): Promise<void> {
    const stored: z.infer<typeof document> = { format: 1, filesystem, label: toStored(payload) };
    await replaceFile(this.#queue, this.#syncs, this.path, indented(stored));
  }

  /** No note is as good. */
  async remove(): Promise<void> {
    await removeFile(this.#queue, this.#syncs, this.path);
  }
}
