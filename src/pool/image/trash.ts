import { readdir, rename, rm, rmdir, stat, truncate, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { ignoreMissing, isErrno } from '../../kernel/errno.ts';
import type { Lane } from '../../kernel/lane.ts';
import type { VolumeId } from '../../volume/id.ts';
import { step } from '../../volume/step.ts';
import { copySuffix, type Layout } from './layout.ts';
import { deletionFileName, readTrash, type TrashEntry } from './trash-entry.ts';

/** A copy that nobody has gone on with for so long is of no use. */
const forgottenAfterMs = 7 * 24 * 3600_000;

/** How often the trash is looked through for what has had its time. */
const expiryIntervalMs = 30_000;

/**
 * What was removed. Kept volumes wait here for their time to end; everything else is unlinked, one after another and
 * behind the answer, since unlinking a large image takes long and nobody waits for it. What a stop or a crash leaves is
 * found by the next start.
 */
export class Trash {
  readonly #lane: Lane;
  readonly #layout: Layout;
  readonly #onError: (path: string, error: unknown) => void;
  readonly #kept = new Map<string, TrashEntry>();
  readonly #expiry: NodeJS.Timeout;
  #last: Promise<void> = Promise.resolve();

  constructor(lane: Lane, layout: Layout, onError: (path: string, error: unknown) => void) {
    this.#lane = lane;
    this.#layout = layout;
    this.#onError = onError;
    this.#expiry = setInterval(() => this.#expire(), expiryIntervalMs).unref();
  }

  /**
   * At the start: learns what is kept, and queues everything else here and all that is half made.
   * @returns how much was queued
   */
  async sweep(): Promise<number> {
    const { drafts } = this.#layout;
    const { kept, unkept, unreadable } = await readTrash(this.#lane, this.#layout);
    for (const entry of kept) this.keep(entry);
    for (const path of unkept) this.purge(path);
    for (const { path, error } of unreadable) this.#onError(path, error);
    let queued = unkept.length;
    for (const name of await this.#lane.run(() => readdir(drafts))) {
      const path = join(drafts, name);
      if (name.endsWith(copySuffix) && !(await this.#isForgotten(path))) continue;
      this.purge(path);
      queued++;
    }
    this.#expire();
    return queued;
  }

  keep(entry: TrashEntry): void {
    this.#kept.set(entry.path, entry);
  }

  /** The one deleted last first. */
  entries(): TrashEntry[] {
    return [...this.#kept.values()].sort((a, b) => (a.deletedAt > b.deletedAt ? -1 : 1));
  }

  /** No longer in the trash: it was taken out. */
  forget({ path }: TrashEntry): void {
    this.#kept.delete(path);
  }

  /** Queues kept volumes: all, or those deleted under one id. */
  purgeKept(id?: VolumeId): VolumeId[] {
    const purged = this.entries().filter(({ record }) => id === undefined || record.id === id);
    for (const { path } of purged) this.purge(path);
    return purged.map(({ record }) => record.id);
  }

  /** Makes room: unlinks what has been kept longest. @returns false if nothing is kept */
  async purgeOldest(): Promise<boolean> {
    const oldest = this.entries().at(-1);
    if (oldest === undefined) return false;
    this.forget(oldest);
    // XFS frees the blocks of an unlinked file later, those of a truncated one at once.
    await this.#lane.run(() => truncate(join(oldest.path, 'data'))).catch(() => undefined);
    this.purge(oldest.path, true);
    await this.drained();
    return true;
  }

  /**
   * Queues a directory. Never throws: what cannot be unlinked now is tried again at the next start.
   * @param isMarked it has a mark that it is to be kept
   */
  purge(path: string, isMarked = this.#kept.has(path)): void {
    this.#kept.delete(path);
    this.#last = this.#last.then(async () => {
      try {
        await step('remove/purge', () => this.#unlink(path, isMarked));
      } catch (error) {
        if (this.#lane.closedFor === undefined) this.#onError(path, error);
      }
    });
  }

  /** Takes a name away at once, so that it can be used anew, and queues what had it. Nothing there: nothing to do. */
  async discard(path: string, trashed: string): Promise<void> {
    try {
      await this.#lane.run(() => rename(path, trashed));
    } catch (error) {
      return ignoreMissing(error);
    }
    this.purge(trashed);
  }

  /** Resolves when everything queued so far is gone. */
  async drained(): Promise<void> {
    await this.#last;
  }

  /** Leaves what is queued to the next opening of the pool. */
  abandon(): void {
    clearInterval(this.#expiry);
  }

  async close(): Promise<void> {
    clearInterval(this.#expiry);
    await this.drained();
  }

  /** The mark goes first: cut short, the rest is still known as something to be unlinked. */
  async #unlink(path: string, isMarked: boolean): Promise<void> {
    try {
      if (isMarked) await this.#unlinkFile(join(path, deletionFileName));
      await Promise.all(['data', 'volume.json'].map((name) => this.#unlinkFile(join(path, name))));
      await this.#lane.run(() => rmdir(path)).catch(ignoreMissing);
    } catch (error) {
      // More than a volume has: half a copy, a snapshot. Or a plain file in tmp/, with which a start tried the disk out.
      if (!isErrno(error, 'ENOTEMPTY', 'EEXIST', 'ENOTDIR')) throw error;
      await this.#lane.run(() => rm(path, { recursive: true, force: true }));
    }
  }

  /** Less work than rm(), which looks at everything before it unlinks it. */
  async #unlinkFile(path: string): Promise<void> {
    await this.#lane.run(() => unlink(path)).catch(ignoreMissing);
  }

  #expire(): void {
    const now = new Date().toISOString();
    for (const { path } of this.entries().filter(({ purgeAt }) => purgeAt <= now)) this.purge(path);
  }

  async #isForgotten(path: string): Promise<boolean> {
    const { mtimeMs } = await this.#lane.run(() => stat(path));
    return Date.now() - mtimeMs > forgottenAfterMs;
  }
}
