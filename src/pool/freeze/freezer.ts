import type { Openable } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { syncFile } from '../../kernel/file/file.ts';
import { syncFilesystem } from '../../kernel/file/filesystem.ts';
import { thaw } from '../../kernel/mount/freeze.ts';
import { type Mount, readMountTable } from '../../kernel/mount/mount-table.ts';
import { liveFilesystem } from '../../kernel/mount/mounted-device.ts';
import { mountsElsewhere } from '../../kernel/process/mounts-elsewhere.ts';
import { Aborted, FailedPrecondition } from '../../volume/errors.ts';
import { finishAll } from '../../volume/finish-all.ts';
import type { VolumeId } from '../../volume/id.ts';
import { step } from '../../volume/step.ts';
import type { Attacher } from '../backend.ts';
import type { PoolLog } from '../log.ts';
import type { Attached, AttachedDevice } from '../pool.ts';
import { Freezes } from './freezes.ts';
import { isMountOf, mountUnseen, openMounted } from './mounted.ts';
import { repeatWhileItHelps } from './rounds.ts';
import { type MountedVolume, Standstill } from './standstill.ts';

/** A writer that waits longer than this for a snapshot has been wronged: thaw, and give the snapshot up. */
export const longestFreezeMs = 10_000;
/** Writers hardly notice so much. */
const shortFreezeMs = 500;
const roundsAtMost = 10;

export interface FreezerOptions {
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
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
 * thawed: on success, on failure, when it takes too long, and after a kill -9 by the next start (`thawLeft`). A freeze of
 * somebody else is left alone while its filesystem is mounted anywhere, and ended when it is not (`endUnseen`).
 */
export class Freezer {
  readonly #queue: DiskQueue;
  readonly #thawQueue: DiskQueue;
  readonly #log: PoolLog;
  readonly #poolName: string;
  readonly #freezes: Freezes;
  readonly #longestMs: number;

  /** @param longestMs how long writers may have to wait */
  constructor({ dataDirectory, queue, log, name }: FreezerOptions, longestMs = longestFreezeMs) {
    this.#queue = queue;
    this.#log = log;
    this.#poolName = name;
    this.#freezes = new Freezes(dataDirectory, name);
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
      for (const { directory } of mounted) await directory[Symbol.asyncDispose]();
    }
  }

  /** The rest takes as long as the last round did, or less. */
  async #goAhead(
    targets: readonly FreezeTarget[],
    mounted: readonly MountedVolume[],
    { ahead }: Pick<Cut<unknown>, 'ahead'>,
  ): Promise<void> {
    let syncedMs = 0;
    const round = async () => {
      const startedAt = performance.now();
      await finishAll(mounted.map(({ directory }) => syncFilesystem(this.#queue, directory)));
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
    mounted: readonly MountedVolume[],
    { work }: Cut<T>,
  ): Promise<{ readonly result: T; readonly frozenMs: number }> {
    const standstill = new Standstill({
      freezes: this.#freezes,
      queue: this.#queue,
      thawQueue: this.#thawQueue,
      log: this.#log,
    });
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

  /** Empties the log of a filesystem that has grown (`growMounted`). */
  async settle(volumeId: VolumeId, directory: Openable): Promise<void> {
    await this.#freezes.briefly(this.#queue, volumeId, directory);
  }

  /**
   * After a start: a driver that was killed while it had filesystems frozen left them so. Only what has a note is
   * thawed: a hook's freeze has to last until the hook ends it.
   */
  async thawLeft(attacher: Pick<Attacher, 'attached'>): Promise<number> {
    let thawed = 0;
    for (const id of await this.#freezes.noted(this.#queue)) {
      const isLeft = await this.#freezes.isLeft(this.#queue, id);
      let isDone = true;
      for (const device of isLeft ? onlyDevices(await attacher.attached(id)) : []) {
        const wasThawed = await this.#guarded(device, async () => {
          await using directory = await openMounted(this.#queue, await readMountTable(this.#queue), device);
          if (directory === undefined) return;
          if (await step('open/thaw', () => this.#freezes.thaw(this.#thawQueue, id, directory))) thawed++;
        });
        isDone &&= wasThawed;
      }
      if (isDone) await this.#freezes.forget(this.#queue, id);
    }
    return thawed;
  }

  /**
   * Ends the freeze of filesystems that are mounted nowhere any more. The kernel keeps a frozen filesystem when its last
   * mount goes, with its device, and the next mount would get the same one, still frozen. Nobody can thaw it then, as
   * nothing leads to it.
   * @returns how many were frozen
   */
  async endUnseen(attached: readonly Attached[]): Promise<number> {
    let ended = 0;
    for (const device of onlyDevices(attached)) {
      const fsType = liveFilesystem(device.devicePath);
      if (fsType === undefined || (await this.#isMountedAnywhere(device))) continue;
      await this.#guarded(device, async () => {
        await using mount = await mountUnseen(this.#queue, device, fsType);
        if (await step('unstage/thaw', () => thaw(this.#thawQueue, mount))) ended++;
      });
    }
    return ended;
  }

  async #isMountedAnywhere(device: AttachedDevice): Promise<boolean> {
    const shows = (mount: Mount) => isMountOf(mount, device);
    return (await readMountTable(this.#queue)).some(shows) || (await mountsElsewhere()).some(shows);
  }

  /** One that cannot be thawed must not keep the others frozen. @returns whether the work was done */
  async #guarded(device: AttachedDevice, work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      if (this.#queue.closedFor !== undefined) throw error;
      this.#log.error(
        { pool: this.#poolName, device: device.devicePath, err: error },
        'cannot see to it that a filesystem is not frozen',
      );
      return false;
    }
  }

  /** One open directory for each filesystem. */
  async #mounted(targets: readonly FreezeTarget[]): Promise<MountedVolume[]> {
    const table = targets.some(({ devices }) => devices.length > 0) ? await readMountTable(this.#queue) : [];
    const found: MountedVolume[] = [];
    try {
      for (const { devices, hasFilesystem, volumeId } of targets) {
        for (const device of devices.filter((each) => !each.readonly)) {
          const directory = await openMounted(this.#queue, table, device).catch((error) => {
            throw error instanceof FailedPrecondition
              ? new FailedPrecondition(`volume ${volumeId}: ${error.message}`)
              : error;
          });
          if (directory !== undefined) found.push({ volumeId, directory });
          // Cloned unfrozen it would lack what was written last.
          else if (hasFilesystem) throw new Aborted(`volume ${volumeId} is being unmounted; try again.`);
        }
      }
    } catch (error) {
      for (const { directory } of found) directory.closeLater();
      throw error;
    }
    return found;
  }
}

function onlyDevices(attached: readonly Attached[]): AttachedDevice[] {
  return attached.filter((each) => each.kind === 'device');
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
