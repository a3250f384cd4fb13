import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { finishAll } from '../../volume/flow/finish-all.ts';
import type { SnapshotId, VolumeId } from '../../volume/id.ts';
import { step } from '../../volume/step.ts';
import type { Backend } from '../backend.ts';
import { byDeletion, type TrashEntry, type TrashRef, timeLeftMs } from '../indexes/trash-entry.ts';
import { expendableOf, type LeftInTrash } from './left-in-trash.ts';
import { PoolAge } from './pool-age.ts';
import { Retries } from './retries.ts';
import { isForWantOfRoom } from './unreadable.ts';

/** The pause between two searches of the trash for entries whose time has ended. */
const expiryIntervalMs = 30_000;

/**
 * The pause between two notes of the pool's age while something is kept. The driver counts more than that of a pause
 * anyway.
 */
const notingIntervalMs = 600_000;

export interface TrashOptions {
  readonly backend: Pick<Backend, 'provisioner' | 'records'>;
  readonly queue: DiskQueue;
  /** undefined: none was left. */
  readonly hasLeft?: LeftInTrash | undefined;
  /** Hears what could not be destroyed; it is tried again. */
  readonly onError: (ref: TrashRef, error: unknown) => void;
}

/**
 * The removed volumes and snapshots. Kept volumes wait here for their time to end; everything else is destroyed, one after
 * another and behind the answer, since to destroy a large volume takes long and no call waits for it. The rest after a
 * stop or a crash is found by the next start.
 */
export class Trash {
  readonly #options: TrashOptions;
  readonly #kept = new Map<TrashRef, TrashEntry>();
  /** Entries whose time has ended, and that are not gone yet: they are not kept again, whatever mark they still have. */
  readonly #ending = new Set<TrashRef>();
  readonly #retries = new Retries();
  readonly #expiry: NodeJS.Timeout;
  /** Slow destructions in progress: they are not in the line that others wait in. Each entry is destroyed by only one. */
  readonly #slow = new Map<TrashRef, Promise<void>>();
  readonly #closing = new AbortController();
  readonly #age: PoolAge;
  #notedMs = Number.NEGATIVE_INFINITY;
  #last: Promise<void> = Promise.resolve();
  /** True if others may share blocks with something here. */
  isShared: (ref: TrashRef) => boolean = () => false;
  /** Called with each destroyed entry. */
  onGone: ((ref: TrashRef) => void) | undefined;

  constructor(options: TrashOptions) {
    this.#options = options;
    this.#age = new PoolAge(options.backend.records);
    this.#expiry = setInterval(() => this.#expire(), expiryIntervalMs).unref();
  }

  /**
   * At the start: reads the kept entries, and queues everything else here and all that is half made.
   * @returns how much was queued
   */
  async sweep(): Promise<number> {
    const { backend, onError } = this.#options;
    const { kept, unkept, unreadable } = await backend.records.readTrash();
    await this.#age.takeUp(Math.max(0, ...kept.map(({ poolAgeMs = 0 }) => poolAgeMs)));
    for (const entry of kept) this.keep(await this.#begin(entry));
    for (const { ref, error } of unreadable) onError(ref, error);
    const left = [...unkept, ...(await backend.provisioner.leftDrafts())];
    for (const ref of left) this.destroy(ref);
    this.#expire();
    return left.length;
  }

  /** The clock of the kept entries. */
  get poolAgeMs(): number {
    return this.#age.ms;
  }

  keep(entry: TrashEntry): void {
    this.#kept.set(entry.ref, entry);
  }

  /** The one deleted last first. */
  entries(): TrashEntry[] {
    return [...this.#kept.values()].sort(byDeletion);
  }

  /** The entries of one id, in no order. */
  of(id: VolumeId): TrashEntry[] {
    const found: TrashEntry[] = [];
    for (const entry of this.#kept.values()) if (entry.record.id === id) found.push(entry);
    return found;
  }

  /** The entries that may go early when their space is needed, in the order of `entries`. */
  expendable(): Promise<TrashEntry[]> {
    return expendableOf(this.entries(), this.#options.hasLeft);
  }

  /** True if the volume of an entry went on elsewhere. */
  async hasLeft(entry: TrashEntry): Promise<boolean> {
    return (await this.#options.hasLeft?.(entry)) === true;
  }

  /** No longer in the trash: it was taken out. */
  forget({ ref }: TrashEntry): void {
    this.#kept.delete(ref);
  }

  /**
   * Reads the entries of this id again.
   * @returns the ones that are not kept
   */
  async reread(id: VolumeId | SnapshotId): Promise<readonly TrashRef[]> {
    const { kept, unkept } = await this.#options.backend.records.readTrash(id);
    for (const entry of this.entries()) if (entry.record.id === id) this.forget(entry);
    for (const entry of kept) if (!this.#ending.has(entry.ref)) this.keep(entry);
    return unkept;
  }

  /** Ends the time of kept volumes: of all, or those deleted under one id. @throws what keeps it from being noted */
  async purgeKept(id?: VolumeId): Promise<VolumeId[]> {
    const purged = this.entries().filter(({ record }) => id === undefined || record.id === id);
    await finishAll(
      purged.map(async (entry) => {
        await this.#unmark(entry);
        await this.#shred(entry).finally(() => this.destroy(entry.ref));
      }),
    );
    return purged.map(({ record }) => record.id);
  }

  /** An encrypted volume is unreadable before the answer, however slowly it goes. @throws the error that prevents that */
  async #shred({ record, ref }: TrashEntry): Promise<void> {
    if (record.encryption === undefined) return;
    await this.#options.backend.provisioner.shred?.(ref).catch((error) => {
      if (!isForWantOfRoom(error)) throw error;
    });
  }

  /** Slow destructions in progress: their space is going to be free. */
  get going(): readonly TrashRef[] {
    return [...this.#slow.keys()];
  }

  /** Resolves when one of those is gone, or could not be destroyed; at once if the last one is gone by now. */
  async oneGone(): Promise<void> {
    if (this.#slow.size > 0) await Promise.race(this.#slow.values());
  }

  /**
   * Makes room: destroys these, as their space is needed. Who was brought back meanwhile, or is going already, is left. What
   * takes long is on its way then (`going`).
   */
  async purgeEarly(entries: readonly TrashEntry[]): Promise<void> {
    for (const entry of entries) {
      if (!this.#kept.has(entry.ref)) continue;
      await this.#unmark(entry);
      this.#enqueueDestruction(entry.ref, true);
    }
    await this.drained();
  }

  /**
   * Queues an entry that is not kept, if there is one. Never throws: a destruction that fails is tried again, and at
   * the next start.
   */
  destroy(ref: TrashRef | undefined): void {
    if (ref !== undefined) this.#enqueueDestruction(ref);
  }

  /** Resolves when everything queued so far is gone, and what that has queued, but for what takes long. */
  async drained(): Promise<void> {
    let last: Promise<void> | undefined;
    while (last !== this.#last) {
      last = this.#last;
      await last;
    }
  }

  /** Leaves the queue to the next opening of the pool. */
  abandon(): void {
    clearInterval(this.#expiry);
    this.#closing.abort();
  }

  async close(): Promise<void> {
    clearInterval(this.#expiry);
    if (this.#kept.size > 0) await this.#noteAge();
    await this.drained();
    this.#closing.abort();
    await Promise.all(this.#slow.values());
  }

  #enqueue(ref: TrashRef, work: () => Promise<void>): void {
    this.#last = this.#last.then(() => this.#try(ref, work));
  }

  #enqueueDestruction(ref: TrashRef, isNeeded = false): void {
    const work = () => this.#destroy(ref, isNeeded);
    if (this.#options.backend.provisioner.destroysSlowly !== true) this.#enqueue(ref, work);
    // A second one would go on when the first has given the place of it to another volume.
    else if (!this.#slow.has(ref)) {
      this.#slow.set(
        ref,
        this.#try(ref, work).finally(() => this.#slow.delete(ref)),
      );
    }
  }

  async #try(ref: TrashRef, work: () => Promise<void>): Promise<void> {
    const { onError, queue } = this.#options;
    try {
      await work();
    } catch (error) {
      if (queue.closedFor === undefined && !this.#closing.signal.aborted) onError(ref, error);
    }
  }

  /**
   * Begins the time of what a driver deleted that does not know of the pool's age, and notes it, so that it goes on after
   * a restart. If it cannot be noted, the time only begins again then.
   */
  async #begin(entry: TrashEntry): Promise<TrashEntry> {
    if (entry.poolAgeMs !== undefined) return entry;
    const { record, ref, ...deletion } = { ...entry, poolAgeMs: this.#age.ms };
    await this.#options.backend.provisioner.mark(ref, deletion).catch(() => undefined);
    return { ...deletion, record, ref };
  }

  /** From now on it cannot be restored. */
  #end(entry: TrashEntry): void {
    this.forget(entry);
    this.#ending.add(entry.ref);
  }

  /**
   * Ends the time of a kept volume, durably, before anything of it goes: what still has its mark after a crash is whole.
   * From here on it cannot be restored.
   */
  async #unmark(entry: TrashEntry): Promise<void> {
    const { provisioner } = this.#options.backend;
    this.#end(entry);
    try {
      await step('remove/unmark', () => provisioner.mark(entry.ref, undefined));
    } catch (error) {
      // If it still has its mark nothing has changed; the same is assumed if the disk does not tell.
      // Otherwise it goes at the next start.
      if (await this.#isStillKept(entry).catch(() => true)) {
        this.#ending.delete(entry.ref);
        this.keep(entry);
      }
      throw error;
    }
  }

  /** By what the storage says of it now. One that cannot be read has its mark, or may have it. */
  async #isStillKept({ record, ref }: TrashEntry): Promise<boolean> {
    const { kept, unreadable } = await this.#options.backend.records.readTrash(record.id);
    return [...kept, ...unreadable].some((each) => each.ref === ref);
  }

  /** @param isNeeded a call waits for its space */
  async #destroy(ref: TrashRef, isNeeded = false): Promise<void> {
    const how = { isNeeded, isShared: this.isShared(ref), signal: this.#closing.signal };
    try {
      await step('remove/purge', () => this.#options.backend.provisioner.destroy(ref, how));
    } catch (error) {
      this.#retries.failed(ref);
      throw error;
    }
    this.#retries.succeeded(ref);
    this.#ending.delete(ref);
    this.onGone?.(ref);
  }

  #expire(): void {
    for (const ref of this.#retries.due()) this.destroy(ref);
    if (this.#kept.size > 0 && performance.now() - this.#notedMs > notingIntervalMs) {
      this.#enqueue('age', () => this.#noteAge());
    }
    for (const entry of this.entries().filter((kept) => timeLeftMs(kept, this.#age.ms) <= 0)) {
      // At once, however long the queue is.
      this.#end(entry);
      this.#enqueue(entry.ref, async () => {
        await this.#unmark(entry);
        this.#enqueueDestruction(entry.ref);
      });
    }
  }

  /** A note that is not made costs nothing but that some time does not count. */
  async #noteAge(): Promise<void> {
    this.#notedMs = performance.now();
    await this.#age.note().catch(() => undefined);
  }
}
