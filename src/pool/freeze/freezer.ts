import type { Descriptor, Openable } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { syncFile } from '../../kernel/file/file.ts';
import { syncFilesystem } from '../../kernel/file/filesystem.ts';
import { type Mount, readMountTable } from '../../kernel/mount/mount-table.ts';
import { liveFilesystem } from '../../kernel/mount/mounted-device.ts';
import { mountsOfDevices } from '../../kernel/mount/mounts-of-device.ts';
import { mountsElsewhere } from '../../kernel/process/mounts-elsewhere.ts';
import { seesAllProcesses } from '../../kernel/process/process.ts';
import { Aborted, FailedPrecondition } from '../../volume/errors.ts';
import type { FilesystemType } from '../../volume/filesystem.ts';
import { finishAll } from '../../volume/flow/finish-all.ts';
import type { VolumeHandle } from '../../volume/handle.ts';
import type { VolumeId } from '../../volume/id.ts';
import type { VolumeRecord } from '../../volume/record.ts';
import { step } from '../../volume/step.ts';
import type { Attacher } from '../backend.ts';
import type { PoolLog } from '../log.ts';
import type { Attached, AttachedDevice } from '../pool.ts';
import { Freezes } from './freezes.ts';
import { mountUnseen, openMounted } from './mounted.ts';
import { repeatWhileItHelps } from './rounds.ts';
import { type MountedVolume, Standstill } from './standstill.ts';

/** A writer that waits longer than this for a snapshot has been wronged: thaw, and give the snapshot up. */
export const longestFreezeMs = 10_000;
/** Writers hardly notice 0.5 s. */
const shortFreezeMs = 500;
const roundsAtMost = 10;

export interface FreezerOptions {
  /** The driver's own directory, HOLDFAST_DATA. */
  readonly dataDirectory: string;
  readonly queue: DiskQueue;
  readonly log: PoolLog;
  /** The name of the pool. */
  readonly name: string;
}

/** A volume that may be mounted. */
export interface FreezeTarget {
  readonly volumeId: VolumeId;
  readonly devices: readonly AttachedDevice[];
  /** Ours, which is mounted whenever something writes to it. */
  readonly hasFilesystem: boolean;
}

/** A volume and how it is reachable on this node now. */
export interface AttachedVolume extends Pick<VolumeRecord, 'content'> {
  readonly id: VolumeHandle;
  readonly attached: readonly Attached[];
}

/** The work on volumes at one instant. */
export interface Cut<T> {
  /** The work that can be done while they are written to. Done again, as long as that leaves less for the end. */
  readonly ahead: () => Promise<void>;
  /** @param signal aborted when writers have waited for too long */
  readonly work: (signal: AbortSignal) => Promise<T>;
}

/**
 * Brings filesystems to rest together for the moment in which their images are cloned. Whatever happens, they are
 * thawed: on success, on failure, when it takes too long, and after a kill -9 by the next start (`thawLeft`). A foreign
 * freeze is left alone while its filesystem is mounted anywhere, and ended when it is not (`endUnseen`).
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
    this.#freezes = new Freezes(dataDirectory, name, log);
    this.#longestMs = longestMs;
    this.#thawQueue = queue.beside('thaw', 1, true);
  }

  /**
   * Does the work while the filesystems of all targets that are mounted are frozen. Before that as much as possible is
   * done and written back, so that writers wait only for the changes since.
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
      // Without writers there is no wait, however long the work takes: it may be a copy.
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
      // Its result is asked for below.
      standstill.end().catch(() => undefined);
    }, this.#longestMs);
    try {
      await standstill.begin(mounted);
      late.signal.throwIfAborted();
      await this.#syncRaw(targets);
      const result = await work(late.signal);
      const wasHeld = await standstill.endInTime();
      late.signal.throwIfAborted();
      if (!wasHeld)
        throw new Aborted('The snapshot was given up: another program thawed a filesystem meanwhile. Try again.');
      return { result, frozenMs: performance.now() - startedAt };
    } finally {
      clearTimeout(watchdog);
      await standstill.end();
    }
  }

  /** Writes back the data that users of raw block volumes have written but the kernel not yet passed on. */
  async #syncRaw(targets: readonly FreezeTarget[]): Promise<void> {
    const raw = targets.filter(({ hasFilesystem }) => !hasFilesystem).flatMap(({ devices }) => devices);
    await finishAll(raw.map(({ devicePath }) => syncFile(this.#queue, devicePath)));
  }

  /** Empties the log of a filesystem that has grown (`growMounted`). */
  async settle(volumeId: VolumeHandle, directory: Openable): Promise<void> {
    await this.#freezes.briefly(this.#queue, volumeId, directory);
  }

  /**
   * After a start: a driver that was killed while it had filesystems frozen left them so. Only freezes with a note are
   * ended: a hook's freeze has to last until the hook ends it.
   */
  async thawLeft(attacher: Pick<Attacher, 'attached'>): Promise<number> {
    let thawed = 0;
    for (const id of await this.#freezes.noted(this.#queue)) {
      thawed += await this.thawLeftOf(id, () => attacher.attached(id));
    }
    return thawed;
  }

  /** The same for one volume. @returns how many of its devices were frozen */
  async thawLeftOf(id: VolumeHandle, attached: () => Promise<readonly Attached[]>): Promise<number> {
    let thawed = 0;
    let isDone = true;
    const isLeft = await this.#freezes.isLeft(this.#queue, id);
    for (const device of isLeft ? onlyDevices(await attached()) : []) {
      const wasThawed = await this.#guarded(device, async () => {
        await using directory = await this.#openLive(device);
        if (directory === undefined) return;
        if (await step('open/thaw', () => this.#freezes.thaw(this.#thawQueue, id, directory))) thawed++;
      });
      isDone &&= wasThawed;
    }
    if (isDone) await this.#freezes.forget(this.#queue, id);
    return thawed;
  }

  /**
   * At the first start after a driver that made no notes: what that left frozen is thawed as it was then, with whatever
   * else is frozen.
   */
  async thawUnnoted(volumes: () => Promise<readonly AttachedVolume[]>): Promise<number> {
    if (await this.#freezes.areNoted(this.#queue)) return 0;
    if (!(await this.#freezes.canNoteAll(this.#queue))) return 0;
    let thawed = 0;
    for (const { id, device } of (await volumes()).flatMap(liveFilesystems)) {
      await this.#guarded(device, async () => {
        await using directory = await openMounted(this.#queue, await readMountTable(this.#queue), device);
        if (directory === undefined) return;
        if (await step('open/thaw', () => this.#freezes.thaw(this.#thawQueue, id, directory))) thawed++;
      });
    }
    await this.#freezes.noteAllFromNow(this.#queue);
    return thawed;
  }

  /** Opens it at any of its mounts, also in another mount namespace; undefined: the kernel no longer has it. */
  async #openLive(device: AttachedDevice): Promise<Descriptor | undefined> {
    const seen = await openMounted(this.#queue, await readMountTable(this.#queue), device);
    if (seen !== undefined) return seen;
    const fsType = liveFilesystem(device.devicePath);
    return fsType && (await mountUnseen(this.#queue, device, fsType));
  }

  /**
   * Ends the freeze of filesystems that are mounted nowhere any more. The kernel keeps a frozen filesystem when its last
   * mount goes, with its device, and the next mount would get the same one, still frozen. No program can thaw it then, as
   * nothing leads to it. The filesystem on a raw block volume is its pod's own affair.
   * @returns how many were frozen
   */
  async endUnseen(...volumes: readonly AttachedVolume[]): Promise<number> {
    const live = volumes.flatMap(liveFilesystems);
    if (live.length === 0) return 0;
    const isMounted = await this.#mountedAnywhere(live);
    let ended = 0;
    for (const each of live.filter((one) => !isMounted(one))) {
      // The first look may be old by now: seconds pass at the start of a node that has many.
      if (live.length > 1 && (await this.#mountedAnywhere([each]))(each)) continue;
      if (!(await this.#mayEnd(each))) continue;
      await this.#guarded(each.device, async () => {
        await using mount = await mountUnseen(this.#queue, each.device, each.fsType);
        if (await step('unstage/thaw', () => this.#freezes.thaw(this.#thawQueue, each.id, mount))) ended++;
      });
    }
    return ended;
  }

  /** Tells those that some mount namespace shows, or may show. */
  async #mountedAnywhere(live: readonly LiveFilesystem[]): Promise<(one: LiveFilesystem) => boolean> {
    const devices = live.map(({ device }) => device.device);
    const among = async (table: readonly Mount[]) => {
      const shows = await mountsOfDevices(this.#queue, table, { devices });
      return ({ device }: LiveFilesystem) => table.some((mount) => shows(mount, device.device) !== false);
    };
    const here = await readMountTable(this.#queue);
    const isHere = await among(here);
    // Most are, and the tables of all containers take long.
    if (live.every(isHere)) return isHere;
    return among([...here, ...(await mountsElsewhere())]);
  }

  /** The driver may always end its own freezes. A freeze of another program ends only if certainly no container uses the filesystem. */
  async #mayEnd({ device, id }: LiveFilesystem): Promise<boolean> {
    if (await this.#freezes.isLeft(this.#queue, id)) return true;
    if (await seesAllProcesses(this.#queue)) return true;
    this.#log.info(
      { pool: this.#poolName, volume_id: id, device: device.devicePath },
      'a filesystem that is mounted nowhere here is left as it is: without hostPID it is unknown whether a container uses it',
    );
    return false;
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
          // Cloned unfrozen it would lack the last writes.
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

/** A filesystem that the kernel has in use, mounted or not. */
interface LiveFilesystem {
  readonly id: VolumeHandle;
  readonly device: AttachedDevice;
  readonly fsType: FilesystemType;
}

function liveFilesystems({ attached, content, id }: AttachedVolume): LiveFilesystem[] {
  if (content.type !== 'mount') return [];
  return onlyDevices(attached).flatMap((device) => {
    const fsType = liveFilesystem(device.devicePath);
    return fsType === undefined ? [] : [{ id, device, fsType }];
  });
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
        `Writers would wait ${longest}: the image of ${whose} lies in very many pieces, so that to clone it takes ${seconds(aheadMs)}. Stop its pod for that time.`,
      )
    : new Aborted(
        `Writers would wait ${longest}: the new writes to ${whose} take its disk ${seconds(syncedMs)} at a time. Try again when less is written.`,
      );
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}
