import { lstat, readdir, rename, rm, rmdir, stat, truncate, unlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../kernel/call/errno.ts';
import { DirectorySync, syncFile } from '../../kernel/file/file.ts';
import { isOpenElsewhere } from '../../kernel/file/lock.ts';
import { finishAll } from '../../volume/finish-all.ts';
import { parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../../volume/id.ts';
import { step } from '../../volume/step.ts';
import { replaceFile } from '../records/durable-file.ts';
import { unlessGone } from '../records/gone.ts';
import { copySuffix, type Layout } from '../records/layout.ts';
import { PoolAge } from './pool-age.ts';
import { byDeletion, deletionFileName, isOriginal, readTrash, type TrashEntry, timeLeftMs } from './trash-entry.ts';

/** A copy that nobody has gone on with for so long is of no use. */
const forgottenAfterMs = 7 * 24 * 3600_000;

/** How often the trash is looked through for what has had its time. */
const expiryIntervalMs = 30_000;

/** How often the pool's age is noted while something is kept. Of a pause the driver counts more than that anyway. */
const notingIntervalMs = 600_000;

/**
 * What was removed. Kept volumes wait here for their time to end; everything else is unlinked, one after another and
 * behind the answer, since unlinking a large image takes long and nobody waits for it. What a stop or a crash leaves is
 * found by the next start.
 */
export class Trash {
  readonly #queue: DiskQueue;
  readonly #layout: Layout;
  readonly #onError: (path: string, error: unknown) => void;
  readonly #kept = new Map<string, TrashEntry>();
  /** Whose time has ended, and that are not gone yet: nobody keeps them again, whatever mark they still have. */
  readonly #ending = new Set<string>();
  readonly #expiry: NodeJS.Timeout;
  readonly #age: PoolAge;
  #notedMs = Number.NEGATIVE_INFINITY;
  #last: Promise<void> = Promise.resolve();
  /** Whether other files may share blocks with an image here: then it is truncated before it is unlinked. */
  isShared: (path: string) => boolean = () => false;
  /** Hears what has been unlinked. */
  onGone: ((path: string) => void) | undefined;

  constructor(queue: DiskQueue, layout: Layout, onError: (path: string, error: unknown) => void) {
    this.#queue = queue;
    this.#layout = layout;
    this.#onError = onError;
    this.#age = new PoolAge(layout.age);
    this.#expiry = setInterval(() => this.#expire(), expiryIntervalMs).unref();
  }

  /**
   * At the start: learns what is kept, and queues everything else here and all that is half made.
   * @returns how much was queued
   */
  async sweep(): Promise<number> {
    const { drafts } = this.#layout;
    const { kept, unkept, unreadable } = await readTrash(this.#queue, this.#layout);
    await this.#age.takeUp(this.#queue, Math.max(0, ...kept.map(({ poolAgeMs = 0 }) => poolAgeMs)));
    for (const entry of kept) this.keep(await this.#begin(entry));
    for (const path of unkept) this.purge(path);
    for (const { path, error } of unreadable) this.#onError(path, error);
    let queued = unkept.length;
    for (const name of await this.#queue.run(() => readdir(drafts))) {
      const path = join(drafts, name);
      if (name.endsWith(copySuffix) && !(await this.#isForgotten(path))) continue;
      await this.#purgeDraft(path);
      queued++;
    }
    this.#expire();
    return queued;
  }

  /** The time by which what is kept here waits. */
  get poolAgeMs(): number {
    return this.#age.ms;
  }

  keep(entry: TrashEntry): void {
    this.#kept.set(entry.path, entry);
  }

  /** The one deleted last first. */
  entries(): TrashEntry[] {
    return [...this.#kept.values()].sort(byDeletion);
  }

  /** What may go early when its space is needed; likewise. */
  expendable(): TrashEntry[] {
    return this.entries().filter((entry) => !isOriginal(entry));
  }

  /** No longer in the trash: it was taken out. */
  forget({ path }: TrashEntry): void {
    this.#kept.delete(path);
  }

  /**
   * Learns anew what lies here of what had this id.
   * @returns what nobody keeps
   */
  async reread(id: VolumeId | SnapshotId): Promise<readonly string[]> {
    const { kept, unkept } = await readTrash(this.#queue, this.#layout, id);
    for (const entry of this.entries()) if (entry.record.id === id) this.forget(entry);
    for (const entry of kept) if (!this.#ending.has(entry.path)) this.keep(entry);
    return unkept;
  }

  /** Ends the time of kept volumes: of all, or those deleted under one id. @throws what keeps it from being noted */
  async purgeKept(id?: VolumeId): Promise<VolumeId[]> {
    const purged = this.entries().filter(({ record }) => id === undefined || record.id === id);
    await finishAll(
      purged.map(async (entry) => {
        await this.#unmark(entry);
        this.purge(entry.path);
      }),
    );
    return purged.map(({ record }) => record.id);
  }

  /** Makes room: unlinks these, as their space is needed. Who was brought back meanwhile, or is going already, is left. */
  async purgeEarly(entries: readonly TrashEntry[]): Promise<void> {
    for (const entry of entries) {
      if (!this.#kept.has(entry.path)) continue;
      await this.#unmark(entry);
      this.#enqueue(entry.path, () => step('remove/purge', () => this.#unlink(entry.path, true)));
    }
    await this.drained();
  }

  /** Queues a directory that nobody keeps. Never throws: what cannot be unlinked now is tried again at the next start. */
  purge(path: string): void {
    this.#enqueue(path, () => step('remove/purge', () => this.#unlink(path)));
  }

  /** Takes a name away at once, so that it can be used anew, and queues what had it. Nothing there: nothing to do. */
  async discard(path: string, trashed: string): Promise<void> {
    const isMoved = await unlessGone(this.#queue, path, () => this.#queue.run(() => rename(path, trashed)));
    if (isMoved) this.purge(trashed);
  }

  /** A copy's draft has a persistent name: whoever goes on with it must not meet what is queued. */
  async #purgeDraft(path: string): Promise<void> {
    const name = basename(path, copySuffix);
    const id = parseVolumeId(name) ?? parseSnapshotId(name);
    if (id === undefined) this.purge(path);
    else await this.discard(path, this.#layout.newTrash(id));
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
    if (this.#kept.size > 0) await this.#noteAge();
    await this.drained();
  }

  #enqueue(path: string, work: () => Promise<void>): void {
    this.#last = this.#last.then(async () => {
      try {
        await work();
      } catch (error) {
        if (this.#queue.closedFor === undefined) this.#onError(path, error);
      }
    });
  }

  /**
   * Begins the time of what a driver deleted that does not know of the pool's age, and notes it, so that it goes on after
   * a restart. What cannot be noted costs nothing but that it begins anew then.
   */
  async #begin(entry: TrashEntry): Promise<TrashEntry> {
    if (entry.poolAgeMs !== undefined) return entry;
    const { deletedAt, path, purgeAt } = entry;
    const deletion = { deletedAt, purgeAt, poolAgeMs: this.#age.ms };
    const text = JSON.stringify(deletion);
    await replaceFile(this.#queue, new DirectorySync(), join(path, deletionFileName), text).catch(() => undefined);
    return { ...entry, ...deletion };
  }

  /** From now on it is nobody's to bring back. */
  #end(entry: TrashEntry): void {
    this.forget(entry);
    this.#ending.add(entry.path);
  }

  /**
   * Ends the time of a kept volume, durably, before anything of it goes: what still has its mark after a crash is whole.
   * From here on nobody can bring it back.
   */
  async #unmark(entry: TrashEntry): Promise<void> {
    const mark = join(entry.path, deletionFileName);
    this.#end(entry);
    try {
      await step('remove/unmark', async () => {
        await this.#unlinkFile(mark);
        await syncFile(this.#queue, entry.path);
      });
    } catch (error) {
      // If it still has its mark nothing has changed. Otherwise it goes at the next start.
      if (await this.#isThere(mark)) {
        this.#ending.delete(entry.path);
        this.keep(entry);
      }
      throw error;
    }
  }

  /** @param isNeeded somebody waits for its space */
  async #unlink(path: string, isNeeded = false): Promise<void> {
    try {
      // XFS lets go of an unlinked file's blocks later, of a truncated one's at once: until then they are not free, and
      // count as shared.
      if (isNeeded || (this.isShared(path) && !(await this.#isRead(path))))
        await this.#queue.run(() => truncate(join(path, 'data'))).catch(ignoreMissing);
      await finishAll(['data', 'volume.json'].map((name) => this.#unlinkFile(join(path, name))));
      await this.#queue.run(() => rmdir(path)).catch(ignoreMissing);
    } catch (error) {
      // More than a volume has: half a copy, a snapshot. Or a plain file in tmp/, with which a start tried the disk out.
      if (!isErrno(error, 'ENOTEMPTY', 'EEXIST', 'ENOTDIR')) throw error;
      await this.#queue.run(() => rm(path, { recursive: true, force: true }));
    }
    this.#ending.delete(path);
    this.onGone?.(path);
  }

  /** Whether somebody reads the image: changed blocks are told to their end, also of a snapshot that is gone (SM14). */
  async #isRead(path: string): Promise<boolean> {
    return (await isOpenElsewhere(this.#queue, join(path, 'data')).catch(ignoreMissing)) ?? false;
  }

  /** Less work than rm(), which looks at everything before it unlinks it. */
  async #unlinkFile(path: string): Promise<void> {
    await this.#queue.run(() => unlink(path)).catch(ignoreMissing);
  }

  #expire(): void {
    if (this.#kept.size > 0 && performance.now() - this.#notedMs > notingIntervalMs) {
      this.#enqueue(this.#layout.age, () => this.#noteAge());
    }
    for (const entry of this.entries().filter((kept) => timeLeftMs(kept, this.#age.ms) <= 0)) {
      // At once, however long the queue is.
      this.#end(entry);
      this.#enqueue(entry.path, async () => {
        await this.#unmark(entry);
        await step('remove/purge', () => this.#unlink(entry.path));
      });
    }
  }

  /** A note that is not made costs nothing but that some time does not count. */
  async #noteAge(): Promise<void> {
    this.#notedMs = performance.now();
    await this.#age.note(this.#queue).catch(() => undefined);
  }

  async #isThere(path: string): Promise<boolean> {
    return this.#queue
      .run(() => lstat(path))
      .then(
        () => true,
        () => false,
      );
  }

  async #isForgotten(path: string): Promise<boolean> {
    const { mtimeMs } = await this.#queue.run(() => stat(path));
    return Date.now() - mtimeMs > forgottenAfterMs;
  }
}
