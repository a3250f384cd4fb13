import { readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isErrno } from '../../kernel/errno.ts';
import { DirectorySync } from '../../kernel/file.ts';
import type { Lane } from '../../kernel/lane.ts';
import { replaceFile } from './durable-file.ts';

/**
 * Says that a source was blank and is being formatted. mkfs is no single step: cut short, it leaves something that is
 * neither blank nor whole. With the marker the next start knows that there was nothing, and formats again; the marker
 * is durably gone before the filesystem is used for the first time.
 */
export class FormatMarker {
  readonly #lane: Lane;
  readonly #path: string;
  readonly #syncs = new DirectorySync();

  constructor(lane: Lane, directory: string, poolName: string) {
    this.#lane = lane;
    this.#path = join(directory, `${poolName}.formatting`);
  }

  async names(source: string): Promise<boolean> {
    try {
      return (await this.#lane.run(() => readFile(this.#path, 'utf8'))) === source;
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return false;
      throw error;
    }
  }

  async set(source: string): Promise<void> {
    await replaceFile(this.#lane, this.#syncs, this.#path, source);
  }

  async clear(): Promise<void> {
    await this.#lane.run(() => rm(this.#path));
    await this.#syncs.sync(this.#lane, dirname(this.#path));
  }
}
