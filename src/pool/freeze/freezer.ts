import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { syncFile } from '../../kernel/file/file.ts';
import { syncFilesystem } from '../../kernel/file/filesystem.ts';
import { readMountTable } from '../../kernel/mount/mount-table.ts';
import { Aborted, FailedPrecondition } from '../../volume/errors.ts';
import { finishAll } from '../../volume/finish-all.ts';
import type { VolumeId } from '../../volume/id.ts';
import { step } from '../../volume/step.ts';
import type { PoolLog } from '../log.ts';
import type { AttachedDevice } from '../pool.ts';
import { openMounted } from './mounted.ts';
import { repeatWhileItHelps } from './rounds.ts';
import { Standstill, thawUnlessSick } from './standstill.ts';

/** A writer that waits longer than this for a snapshot has been wronged: thaw, and give the snapshot up. */
export const longestFreezeMs = 10_000;
/** Writers hardly notice so much. */
const shortFreezeMs = 500;
const roundsAtMost = 10;

export interface FreezerOptions {
  readonly queue: DiskQueue;
  readonly log: PoolLog;
  /** Of the pool. */
  readonly name: string;
}

/** A volume that may be mounted. */
export interface FreezeTarget {
  readonly volumeId: VolumeId;
  readonly devices: readonly AttachedDevice[];
  /** Ours, which is mounted whenever something writes to it. */
  readonly hasFilesystem: boolean;
}

/** What is done to volumes at one instant. */
export interface Cut<T> {
  /** What can be done while they are written to. Done again, as long as that leaves less for the end. */
  readonly ahead: () => Promise<void>;
  /** @param signal aborted when writers have waited for too long */
  readonly work: (signal: AbortSignal) => Promise<T>;
}

/**
 * Brings filesystems to rest together for the moment in which their images are cloned. Whatever happens, they are
 * thawed: on success, on failure, when it takes too long, and after a kill -9 by the next start (`thawAll`).
 */
export class Freezer {
  readonly #queue: DiskQueue;
  readonly #thawQueue: DiskQueue;
  readonly #log: PoolLog;
  readonly #poolName: string;
  readonly #longestMs: number;

  /** @param longestMs how long writers may have to wait */
  constructor({ queue, log, name }: FreezerOptions, longestMs = longestFreezeMs) {
    this.#queue = queue;
    this.#log = log;
    this.#poolName = name;
    this.#longestMs = longestMs;
    this.#thawQueue = queue.beside('thaw', 1);
  }

  /**
   * Does the work while the filesystems of all targets that are mounted are frozen. Before that as much as possible is
   * done and written back, so that writers wait only for what has come since.
   * @returns what the work returned, and how long writers had to wait
   * @throws Aborted if the freeze had to be ended before the work was done: what it made is no cut at one instant
   * @throws Aborted, FailedPrecondition if writers would have to wait for too long; then they have not waited at all
   */
  async whileFrozen<T>(
    targets: readonly FreezeTarget[],
    cut: Cut<T>,
  ): Promise<{ readonly result: T; readonly frozenMs: number }> {
    const mounted = await this.#mounted(targets);
    try {
      const isWritten = targets.some(({ devices }) => devices.some(({ readonly }) => !readonly));
      // Where nobody writes nobody has to wait, however long the work takes: it may be a copy.
      if (isWritten) await this.#goAhead(targets, mounted, cut);
      if (mounted.length > 0) return await this.#freeze(targets, mounted, cut);
      await this.#syncRaw(targets);
      return { result: await cut.work(new AbortController().signal), frozenMs: 0 };
    } finally {
      for (const directory of mounted) await directory[Symbol.asyncDispose]();
    }
  }

  /** The rest takes as long as the last round did, or less. */
  async #goAhead(
    targets: readonly FreezeTarget[],
    mounted: readonly Descriptor[],
    { ahead }: Pick<Cut<unknown>, 'ahead'>,
  ): Promise<void> {
    let syncedMs = 0;
    const round = async () => {
      const startedAt = performance.now();
      await finishAll(mounted.map((directory) => syncFilesystem(this.#queue, directory)));
      await this.#syncRaw(targets);
      syncedMs = performance.now() - startedAt;
      await ahead();
    };
    const now = () => performance.now();
    const lastMs = await repeatWhileItHelps(round, { enoughMs: shortFreezeMs, atMost: roundsAtMost, now });
    if (lastMs <= this.#longestMs) return;
    throw tooMuch(targets, { aheadMs: lastMs - syncedMs, syncedMs, longestMs: this.#longestMs });
  }

  async #freeze<T>(
    targets: readonly FreezeTarget[],
    mounted: readonly Descriptor[],
    { work }: Cut<T>,
  ): Promise<{ readonly result: T; readonly frozenMs: number }> {
    const standstill = new Standstill({ queue: this.#queue, thawQueue: this.#thawQueue, log: this.#log });
    const late = new AbortController();
    const startedAt = performance.now();
    const watchdog = setTimeout(() => {
      late.abort(tooLong(this.#longestMs));
      // What it says is asked for below.
      standstill.end().catch(() => undefined);
    }, this.#longestMs);
    try {
      await standstill.begin(mounted);
      late.signal.throwIfAborted();
      await this.#syncRaw(targets);
      const result = await work(late.signal);
      const wasHeld = await standstill.end();
      late.signal.throwIfAborted();
      if (!wasHeld)
        throw new Aborted('The snapshot was given up: somebody else thawed a filesystem meanwhile. Try again.');
      return { result, frozenMs: performance.now() - startedAt };
    } finally {
      clearTimeout(watchdog);
      await standstill.end();
    }
  }

  /** What users of raw block volumes have written but the kernel not yet passed on. */
  async #syncRaw(targets: readonly FreezeTarget[]): Promise<void> {
    const raw = targets.filter(({ hasFilesystem }) => !hasFilesystem).flatMap(({ devices }) => devices);
    await finishAll(raw.map(({ devicePath }) => syncFile(this.#queue, devicePath)));
  }

  /** After a start: a driver that was killed while it had filesystems frozen left them so. */
  async thawAll(devices: readonly AttachedDevice[]): Promise<number> {
    const table = await readMountTable(this.#queue);
    let thawed = 0;
    for (const device of devices) {
      try {
        await using directory = await openMounted(this.#queue, table, device);
        if (directory === undefined) continue;
        if (await step('open/thaw', () => thawUnlessSick(this.#thawQueue, directory))) thawed++;
      } catch (error) {
        if (this.#queue.closedFor !== undefined) throw error;
        // One that cannot be thawed must not keep the others frozen.
        this.#log.error(
          { pool: this.#poolName, device: device.devicePath, err: error },
          'cannot see to it that a filesystem is not frozen',
        );
      }
    }
    return thawed;
  }

  /** One open directory for each filesystem. */
  async #mounted(targets: readonly FreezeTarget[]): Promise<Descriptor[]> {
    const table = targets.some(({ devices }) => devices.length > 0) ? await readMountTable(this.#queue) : [];
    const directories: Descriptor[] = [];
    try {
      for (const { devices, hasFilesystem, volumeId } of targets) {
        for (const device of devices.filter((each) => !each.readonly)) {
          const directory = await openMounted(this.#queue, table, device).catch((error) => {
            throw error instanceof FailedPrecondition
              ? new FailedPrecondition(`volume ${volumeId}: ${error.message}`)
              : error;
          });
          if (directory !== undefined) directories.push(directory);
          // Cloned unfrozen it would lack what was written last.
          else if (hasFilesystem) throw new Aborted(`volume ${volumeId} is being unmounted; try again.`);
        }
      }
    } catch (error) {
      for (const directory of directories) directory.closeLater();
      throw error;
    }
    return directories;
  }
}

function tooLong(longestMs: number): Aborted {
  return new Aborted(
    `The snapshot was given up: cloning took longer than ${longestMs / 1000} s and writers would have waited for it. Try again.`,
  );
}

/** Said before anything is frozen. */
function tooMuch(
  targets: readonly FreezeTarget[],
  { aheadMs, longestMs, syncedMs }: { readonly aheadMs: number; readonly longestMs: number; readonly syncedMs: number },
): Aborted | FailedPrecondition {
  const [first] = targets;
  const whose = targets.length === 1 ? `volume ${first?.volumeId}` : `one of ${targets.length} volumes`;
  const longest = `longer than ${longestMs / 1000} s`;
  return aheadMs > syncedMs
    ? new FailedPrecondition(
        `Writers would wait ${longest}: the image of ${whose} lies in so many pieces that to clone it takes ${seconds(aheadMs)}. Stop its pod for that time.`,
      )
    : new Aborted(
        `Writers would wait ${longest}: what is written to ${whose} takes its disk ${seconds(syncedMs)} at a time. Try again when less is written.`,
      );
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}
