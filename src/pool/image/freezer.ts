import type { Descriptor } from '../../kernel/descriptor.ts';
import { isErrno } from '../../kernel/errno.ts';
import { syncFilesystem } from '../../kernel/filesystem.ts';
import { freeze, thaw } from '../../kernel/freeze.ts';
import type { Lane } from '../../kernel/lane.ts';
import { readMountTable } from '../../kernel/mount-table.ts';
import { Aborted, FailedPrecondition } from '../../volume/errors.ts';
import type { VolumeId } from '../../volume/id.ts';
import { shortPath } from '../../volume/short-path.ts';
import { step } from '../../volume/step.ts';
import type { AttachedDevice } from '../pool.ts';
import type { PoolLog } from './log.ts';
import { openMounted } from './mounted.ts';
import type { ImageParts } from './parts.ts';

/** A writer that waits longer than this for a snapshot has been wronged: thaw, and give the snapshot up. */
const longestFreezeMs = 10_000;

/** A volume that may be mounted. */
export interface FreezeTarget {
  readonly volumeId: VolumeId;
  readonly devices: readonly AttachedDevice[];
  /** Ours, which is mounted whenever something writes to it. */
  readonly hasFilesystem: boolean;
}

/**
 * Brings filesystems to rest together for the moment in which their images are cloned. Whatever happens, they are
 * thawed: on success, on failure, when it takes too long, and after a kill -9 by the next start (`thawAll`).
 */
export class Freezer {
  readonly #lane: Lane;
  /** Of its own: a thaw never waits for a worker thread that waits for the thaw. */
  readonly #thawLane: Lane;

  readonly #log: PoolLog;
  readonly #poolName: string;

  constructor({ lane, log, name }: Pick<ImageParts, 'lane' | 'log' | 'name'>) {
    this.#lane = lane;
    this.#log = log;
    this.#poolName = name;
    this.#thawLane = lane.beside('thaw', 1);
  }

  /**
   * Runs `work` while the filesystems of all targets that are mounted are frozen. They are written back before, so
   * that writers wait only for what has come since.
   * @returns what `work` returned, and how long writers had to wait
   * @throws Aborted if the freeze had to be ended before `work` was done: what it made is no cut at one instant
   */
  async whileFrozen<T>(
    targets: readonly FreezeTarget[],
    work: () => Promise<T>,
  ): Promise<{ readonly result: T; readonly frozenMs: number }> {
    const mounted = await this.#mounted(targets);
    // Nobody writes, so nobody has to wait, however long the work takes: it may be a copy.
    if (mounted.length === 0) return { result: await work(), frozenMs: 0 };
    const frozen: Descriptor[] = [];
    let isLate = false;
    const watchdog = setTimeout(() => {
      isLate = true;
      void this.#thaw(frozen);
    }, longestFreezeMs);
    try {
      await Promise.all(mounted.map((directory) => syncFilesystem(this.#lane, directory)));
      const startedAt = performance.now();
      watchdog.refresh();
      await this.#freezeAll(mounted, frozen);
      if (isLate) throw tooLong();
      const result = await work();
      await this.#thaw(frozen);
      if (isLate) throw tooLong();
      return { result, frozenMs: performance.now() - startedAt };
    } finally {
      clearTimeout(watchdog);
      await this.#thaw(frozen);
      for (const directory of mounted) await directory[Symbol.asyncDispose]();
    }
  }

  /** After a start: a driver that was killed while it had filesystems frozen left them so. */
  async thawAll(devices: readonly AttachedDevice[]): Promise<number> {
    const table = await readMountTable(this.#lane);
    let thawed = 0;
    for (const device of devices) {
      try {
        await using directory = await openMounted(this.#lane, table, device);
        if (directory === undefined) continue;
        if (await step('open/thaw', () => this.#thawOne(directory))) thawed++;
      } catch (error) {
        if (this.#lane.closedFor !== undefined) throw error;
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
    const table = targets.some(({ devices }) => devices.length > 0) ? await readMountTable(this.#lane) : [];
    const directories: Descriptor[] = [];
    try {
      for (const { devices, hasFilesystem, volumeId } of targets) {
        for (const device of devices.filter((each) => !each.readonly)) {
          const directory = await openMounted(this.#lane, table, device).catch((error) => {
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

  /** Together: who writes to several of them waits for the slowest, not for the sum. */
  async #freezeAll(directories: readonly Descriptor[], frozen: Descriptor[]): Promise<void> {
    const outcomes = await Promise.allSettled(
      directories.map(async (directory) => {
        await this.#freeze(directory);
        frozen.push(directory);
      }),
    );
    // Only when none is on its way any more: what is frozen after the failure has to be thawed as well.
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }

  async #freeze(directory: Descriptor): Promise<void> {
    try {
      await freeze(this.#lane, directory);
    } catch (error) {
      if (!isErrno(error, 'EBUSY')) throw error;
      throw new FailedPrecondition(
        `The filesystem at ${shortPath(directory.path)} is frozen by somebody else: thaw it first (fsfreeze --unfreeze).`,
      );
    }
  }

  async #thaw(directories: readonly Descriptor[]): Promise<void> {
    for (const directory of directories) await this.#thawOne(directory);
  }

  /** @returns whether it was frozen */
  async #thawOne(directory: Descriptor): Promise<boolean> {
    try {
      return await thaw(this.#thawLane, directory);
    } catch (error) {
      // Of a disk that is sick. When its pool is opened anew, whatever is frozen is thawed.
      if (this.#thawLane.closedFor !== undefined) return false;
      throw error;
    }
  }
}

function tooLong(): Aborted {
  return new Aborted(
    `The snapshot was given up: cloning took longer than ${longestFreezeMs / 1000} s and writers would have waited for it. Try again.`,
  );
}
