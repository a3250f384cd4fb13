import { lstat, mkdir, rmdir, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { refusesWrites, setRefusesWrites, sizeOfDevice } from '../../../kernel/block/block.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { openDirectory } from '../../../kernel/file/path.ts';
import { unmount } from '../../../kernel/mount/mount.ts';
import { liveFilesystem } from '../../../kernel/mount/mounted-device.ts';
import { HoldfastError, OutOfRange, Unavailable } from '../../../volume/errors.ts';
import type { TurnsByKey } from '../../../volume/flow/turns.ts';
import { withTimeout } from '../../../volume/flow/with-timeout.ts';
import { fileNameOf, type VolumeHandle } from '../../../volume/handle.ts';
import type { Secrets } from '../../../volume/secrets.ts';
import { abnormal } from '../../condition.ts';
import type { PoolLog } from '../../log.ts';
import type { NodeSide, NodeSideContext, VolumeOnNode } from '../../node-side.ts';
import type { Attached, Attachment, AttachOptions, Condition } from '../../pool.ts';
import type { Answer } from './answer.ts';
import { ProgramCalls } from './calls.ts';
import type { ProgramConfig } from './config.ts';
import { readExecContext } from './context.ts';
import { isHeld, isStillAttached, mountAt, openDevice, showsMount } from './look.ts';
import { type ExecNote, type ExecNotes, isSameDevice, type NotedDevice } from './notes.ts';
import { presentable } from './run-program.ts';
import { type ExecVolume, type Verbs, verbsOf } from './verbs.ts';

/** This node, for programs. */
export interface ExecNode {
  readonly nodeName: string;
  readonly programs: ReadonlyMap<string, ProgramConfig>;
  readonly notes: ExecNotes;
  /** By handle. They outlive a queue that hung. */
  readonly turns: TurnsByKey<VolumeHandle>;
  readonly locksDirectory: string;
  /** Names of programs that do not look at their volumes (`condition`). */
  readonly withoutLook: Set<string>;
  /** In the kubelet's directory, whose mounts outlive the container of the driver. */
  readonly mountsDirectory: string;
  readonly log: PoolLog;
}

/** Calls for the volume wait for such a look. */
const longestLookMs = 10_000;
/** Statistics wait for it: a volume that says nothing for 3 s is called silent. */
const patientMs = 2_000;

const itIsThere: Condition = { abnormal: false, message: 'What the program of this volume made is there.' };

/** One volume that a program makes reachable: no other volume waits for its calls. */
export class ExecSide implements NodeSide {
  readonly name: string;
  readonly #node: ExecNode;
  readonly #context: NodeSideContext;
  /** For what must go on while calls wait for the volume itself. */
  readonly #beside: DiskQueue;
  /** No call of a driver before this one runs any more. */
  #isSettled = false;
  /** The device that the last stage did not get, as it was in use for something else. */
  #refusedPath: string | undefined;
  /** The program's look at the volume that is under way, and what the last one found. */
  #looking: Promise<Condition | undefined> | undefined;
  #looked: Condition | undefined;

  constructor(node: ExecNode, context: NodeSideContext) {
    this.#node = node;
    this.#context = context;
    this.#beside = context.queue.beside('program', 1);
    this.name = `program ${context.server}`;
  }

  attach(volume: VolumeOnNode, { secrets }: AttachOptions): Promise<Attachment> {
    return this.#node.turns.run(volume.handle, async () => {
      const { calls, place, verbs } = this.#parts(volume);
      await this.#settle(volume, calls);
      const note = await this.#current(volume);
      if (note?.state !== 'done') {
        // Before it is noted that the program may have done something.
        await verbs.begin();
        // A call that was cut short may have done half of its work.
        if (note !== undefined) await this.#takeDown(volume, place, verbs, note);
        await this.#bringUp(volume, { calls, place, verbs }, secrets);
      }
      return await this.#open(volume, calls, place);
    });
  }

  async attached(volume: VolumeOnNode): Promise<Attached[]> {
    const place = this.#place(volume);
    const note = this.#noteOf(volume);
    if (note === undefined) return [];
    if (volume.content.type === 'directory') {
      const path = await this.#shownAt(place, note);
      return path === undefined ? [] : [directoryOf(place, path)];
    }
    const { device } = note;
    if (device === undefined) return [];
    return (await this.#isStill(note)) ? [deviceOf(device)] : [];
  }

  async detach(volume: VolumeOnNode): Promise<void> {
    await this.forget(volume);
  }

  forget(volume: VolumeOnNode): Promise<void> {
    return this.#node.turns.run(volume.handle, async () => {
      const note = this.#noteOf(volume) ?? (await this.#leftWithoutNote(volume));
      if (note === undefined) return;
      const { calls, place, verbs } = this.#parts(volume);
      await this.#settle(volume, calls);
      await this.#takeDown(volume, place, verbs, note);
      await this.#node.notes.remove(volume.handle);
    });
  }

  grow(volume: VolumeOnNode, newBytes: bigint): Promise<bigint> {
    return this.#node.turns.run(volume.handle, async () => {
      const { calls, place, verbs } = this.#parts(volume);
      const device = this.#noteOf(volume)?.device;
      const oldBytes = device === undefined ? 0n : await this.#sizeOf(device);
      const sizes = { newBytes, oldBytes };
      if (device === undefined || oldBytes < newBytes) await verbs.grow(place, device?.path, sizes);
      if (volume.content.type === 'directory') await verbs.growFilesystem(place, device?.path, sizes);
      const grownBytes = device === undefined ? newBytes : await this.#sizeOf(device);
      if (grownBytes >= newBytes) return grownBytes;
      throw new OutOfRange(
        `${calls.about} leaves its device with ${grownBytes} bytes, not ${newBytes}: grow it first.`,
      );
    });
  }

  async condition(volume: VolumeOnNode): Promise<Condition> {
    const isThere = (await this.attached(volume)).length > 0;
    if (isThere) return (await this.#programsLook(volume)) ?? itIsThere;
    return abnormal('What the program of this volume made is gone: start its pods again.');
  }

  /** A look that takes longer goes on, and the next question gets its answer; until then the one before counts. */
  async #programsLook(volume: VolumeOnNode): Promise<Condition | undefined> {
    this.#looking ??= this.#look(volume).finally(() => {
      this.#looking = undefined;
    });
    const answer = await withTimeout(patientMs, this.#looking);
    return answer === 'late' ? this.#looked : answer;
  }

  /** undefined: the program does not look at its volumes. It is asked for that once, until the driver starts again. */
  async #look(volume: VolumeOnNode): Promise<Condition | undefined> {
    const { calls, place, verbs } = this.#parts(volume, longestLookMs);
    const { name } = calls.program;
    if (this.#node.withoutLook.has(name)) return undefined;
    try {
      const found = await verbs.condition(place, this.#noteOf(volume)?.device?.path);
      if (found === undefined) this.#node.withoutLook.add(name);
      this.#looked = found;
      return found;
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      this.#looked = abnormal(`The condition of this volume is not known: ${error.message}`);
      return this.#looked;
    }
  }

  /** Before anything is looked at: it could be another one a moment later. */
  async #settle(volume: VolumeOnNode, calls: ProgramCalls): Promise<void> {
    if (!this.#isSettled && this.#noteOf(volume) !== undefined) await calls.settle();
    this.#isSettled = true;
  }

  async #bringUp(volume: VolumeOnNode, { calls, place, verbs }: Parts, secrets: Secrets | undefined): Promise<void> {
    const { notes } = this.#node;
    const begun: ExecNote = {
      ...{ handle: volume.handle, program: calls.program.name, state: 'begun', boot: notes.boot },
    };
    await notes.write(begun);
    await this.#makeDirectories(place);
    const path = await verbs.attach(place, secrets);
    const device = path === undefined ? undefined : await this.#requireDevice(volume, { calls, path, secrets });
    if (device !== undefined) await notes.write({ ...begun, device });
    if (volume.content.type !== 'directory') {
      if (device === undefined)
        throw calls.wrong('has attached no device, and its configuration says presents: device.');
      return await notes.write({ ...begun, state: 'done', device });
    }
    if (device !== undefined && (await verbs.mountDevice(place, device.path)) !== undefined) {
      await this.#requireMount(calls, 'mountdevice', place.deviceDirectory);
    }
    const answer = await verbs.mount(place, device?.path, secrets);
    const from = answer === undefined ? place.deviceDirectory : place.mountDirectory;
    const mount = await this.#requireMount(calls, answer === undefined ? 'mountdevice' : 'mount', from);
    await notes.write({ ...begun, state: 'done', mount, ...(device === undefined ? {} : { device }) });
  }

  /** Undoes all that may have been done, in the reverse order; each part is fine if it is undone already. */
  async #takeDown(volume: VolumeOnNode, place: ExecVolume, verbs: Verbs, note: ExecNote): Promise<void> {
    await this.#unmount(volume, place.mountDirectory, () => verbs.unmount(place));
    await this.#unmount(volume, place.deviceDirectory, () => verbs.unmountDevice(place));
    // Under its name there may be another one by now.
    const device = (await this.#isStill(note)) ? note.device : undefined;
    if (device !== undefined) {
      const live = liveFilesystem(device.path);
      if (live !== undefined) {
        throw new Unavailable(
          `volume ${volume.handle}: its ${live} is still in use on ${device.path} (see holdfast who). It is tried again.`,
        );
      }
    }
    if (device !== undefined && volume.content.type === 'block') await this.#acceptWrites(device);
    const isForeign = (path: string) => this.#isForeign(volume, path);
    const isRefused = this.#refusedPath !== undefined && (await isForeign(this.#refusedPath));
    // Also not by its name: the program could let go of the other one.
    if (!isRefused) await verbs.detach(place, device?.path, isForeign);
    const { deviceDirectory, mountDirectory } = place;
    for (const directory of [mountDirectory, deviceDirectory, dirname(mountDirectory)]) {
      await this.#removeDirectory(volume, directory);
    }
  }

  /**
   * A volume that was published read-only leaves its mark on the number of a loop or nbd device. The kernel would refuse
   * writes of the next user of that number, which may be any program.
   */
  async #acceptWrites(device: NotedDevice): Promise<void> {
    const found = await openDevice(this.#beside, device.path);
    if (found === undefined) return;
    await using descriptor = found.descriptor;
    if (!isSameDevice(found.noted, device) || !refusesWrites(descriptor)) return;
    try {
      setRefusesWrites(descriptor, false);
    } catch (error) {
      // A device that its program has attached for reading alone, e.g. of rbd.
      if (!isErrno(error, 'EROFS')) throw error;
    }
  }

  /** Removes one that is empty. Things that a program has left in it are not the volume's, and hinder no mount. */
  async #removeDirectory({ handle }: VolumeOnNode, directory: string): Promise<void> {
    try {
      await this.#beside.run(() => rmdir(directory));
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return;
      // A driver may have put a link in its place. Through it the next mount would be somewhere else.
      if (isErrno(error, 'ENOTDIR') && (await this.#isLink(directory))) {
        return await this.#beside.run(() => unlink(directory));
      }
      if (!isErrno(error, 'ENOTEMPTY', 'ENOTDIR')) throw error;
      this.#node.log.warn({ volume_id: handle, path: directory }, 'a program has left something there: it stays');
    }
  }

  async #isLink(path: string): Promise<boolean> {
    return (await this.#beside.run(() => lstat(path))).isSymbolicLink();
  }

  async #unmount(
    { handle }: VolumeOnNode,
    directory: string,
    byProgram: () => Promise<Answer | undefined>,
  ): Promise<void> {
    if ((await mountAt(this.#beside, directory)) === undefined) return;
    if ((await byProgram()) === undefined) await unmount(this.#beside, directory);
    if ((await mountAt(this.#beside, directory)) === undefined) return;
    throw new Unavailable(
      `volume ${handle}: ${this.name} says that it has unmounted the volume, and it is still mounted. It is tried again.`,
    );
  }

  async #open(volume: VolumeOnNode, calls: ProgramCalls, place: ExecVolume): Promise<Attachment> {
    const { queue } = this.#context;
    const note = this.#noteOf(volume);
    const { device } = note ?? {};
    if (volume.content.type === 'directory') {
      const path = note && (await this.#shownAt(place, note));
      if (path === undefined) throw calls.wrong('has made a mount that is gone again: stage the volume once more.');
      const descriptor = await openDirectory(queue, path);
      return { ...directoryOf(place, path), descriptor, release: () => descriptor[Symbol.asyncDispose]() };
    }
    const found = device && (await openDevice(queue, device.path));
    if (found === undefined || device === undefined || !isSameDevice(found.noted, device)) {
      await found?.descriptor[Symbol.asyncDispose]();
      throw calls.wrong('has attached a device that is gone again: stage the volume once more.');
    }
    const { descriptor } = found;
    return { ...deviceOf(device), descriptor, release: () => descriptor[Symbol.asyncDispose]() };
  }

  /** The note, if what it says is still so. */
  async #current(volume: VolumeOnNode): Promise<ExecNote | undefined> {
    const note = this.#noteOf(volume);
    if (note?.state !== 'done') return note;
    return (await this.attached(volume)).length === 0 ? { ...note, state: 'begun' } : note;
  }

  /**
   * The directory in which a program shows the volume: that of its device, for one that has no mount. Where the mount of the
   * volume is gone, the one of its device may show more than the volume.
   */
  async #shownAt({ deviceDirectory, mountDirectory }: ExecVolume, { mount }: ExecNote): Promise<string | undefined> {
    for (const directory of [mountDirectory, deviceDirectory]) {
      const found = await mountAt(this.#beside, directory);
      if (found !== undefined && mount !== undefined && showsMount(mount, found) === 'whole') return directory;
    }
    return undefined;
  }

  /** Mounts whose note is lost, or is one that this driver cannot read. */
  async #leftWithoutNote(volume: VolumeOnNode): Promise<ExecNote | undefined> {
    const { context, deviceDirectory, mountDirectory } = this.#place(volume);
    const mounts = [await mountAt(this.#beside, mountDirectory), await mountAt(this.#beside, deviceDirectory)];
    if (mounts.every((mount) => mount === undefined)) return undefined;
    return { handle: volume.handle, program: context.program, state: 'begun', boot: this.#node.notes.boot };
  }

  async #isStill({ boot, device }: ExecNote): Promise<boolean> {
    return device !== undefined && boot === this.#node.notes.boot && (await isStillAttached(this.#beside, device));
  }

  async #requireDevice(volume: VolumeOnNode, { calls, path, secrets }: Claim): Promise<NotedDevice> {
    const found = await openDevice(this.#beside, path);
    const sizeBytes = found === undefined ? 0n : sizeOfDevice(found.descriptor);
    await found?.descriptor[Symbol.asyncDispose]();
    if (found === undefined || sizeBytes === 0n) {
      throw calls.wrong(
        `says that it has attached ${JSON.stringify(presentable(path, secrets).slice(0, 60))}, which is no block device with data.`,
      );
    }
    const { noted } = found;
    const user = await this.#claim(volume, noted);
    this.#refusedPath = user === undefined ? undefined : noted.path;
    if (user !== undefined) throw calls.wrong(`has attached ${noted.path}, which is ${user}.`);
    return noted;
  }

  /** Takes a device for a volume. @returns what it is in use as, if it is not the volume's */
  async #claim({ handle }: VolumeOnNode, device: NotedDevice): Promise<string | undefined> {
    const { notes } = this.#node;
    const other = notes.claim(handle, device);
    if (other !== undefined) return `volume ${other} already`;
    if (!(await isHeld(this.#beside, device))) return undefined;
    notes.release(handle);
    return 'in use by something else on this node';
  }

  /** Answers if a device that a program says is this volume's is used as another one, or by something else. */
  async #isForeign(volume: VolumeOnNode, path: string): Promise<boolean> {
    const found = await openDevice(this.#beside, path);
    await found?.descriptor[Symbol.asyncDispose]();
    const user = found && (await this.#claim(volume, found.noted));
    if (user === undefined) return false;
    this.#node.log.warn(
      { volume_id: volume.handle, path: found?.noted.path, user },
      'a device is not detached: in use',
    );
    return true;
  }

  async #requireMount(calls: ProgramCalls, verb: string, directory: string) {
    const mount = await mountAt(this.#beside, directory);
    if (mount !== undefined) return mount;
    throw calls.wrong(`answers ${verb} with Success, and nothing is mounted at the directory that it was given.`);
  }

  async #sizeOf(device: NotedDevice): Promise<bigint> {
    const found = await openDevice(this.#beside, device.path);
    const sizeBytes = found === undefined ? 0n : sizeOfDevice(found.descriptor);
    await found?.descriptor[Symbol.asyncDispose]();
    return sizeBytes;
  }

  async #makeDirectories({ deviceDirectory, mountDirectory }: ExecVolume): Promise<void> {
    for (const directory of [deviceDirectory, mountDirectory]) {
      await this.#beside.run(() => mkdir(directory, { recursive: true, mode: 0o700 }));
    }
  }

  #noteOf({ handle }: VolumeOnNode): ExecNote | undefined {
    return this.#node.notes.read(handle);
  }

  #place(volume: VolumeOnNode): ExecVolume {
    const { mountsDirectory, nodeName } = this.#node;
    const { handle } = volume;
    const directory = join(mountsDirectory, fileNameOf(handle));
    return {
      ...{ handle, context: readExecContext(volume.context), nodeName, mountsDirectory },
      deviceDirectory: join(directory, 'device'),
      mountDirectory: join(directory, 'mount'),
    };
  }

  /** @throws Unavailable if the configuration has lost the program */
  #parts(volume: VolumeOnNode, longestMs = Number.POSITIVE_INFINITY): Parts {
    const place = this.#place(volume);
    const program = this.#node.programs.get(place.context.program);
    if (program === undefined) {
      throw new Unavailable(
        `volume ${volume.handle} needs program ${place.context.program}, which the configuration of this node does not have any more.`,
      );
    }
    const { locksDirectory, log } = this.#node;
    const limited = { ...program, timeoutMs: Math.min(program.timeoutMs, longestMs) };
    const calls = new ProgramCalls(limited, { queue: this.#beside, locks: locksDirectory, log }, volume.handle);
    return { calls, place, verbs: verbsOf(calls) };
  }
}

interface Parts {
  readonly calls: ProgramCalls;
  readonly place: ExecVolume;
  readonly verbs: Verbs;
}

/** The device that a program says it has attached. */
interface Claim {
  readonly calls: ProgramCalls;
  readonly path: string;
  readonly secrets: Secrets | undefined;
}

function directoryOf({ deviceDirectory, mountDirectory }: ExecVolume, path: string) {
  return { kind: 'directory', path, keptAt: [deviceDirectory, mountDirectory] } as const;
}

function deviceOf({ major, minor, path }: NotedDevice) {
  return { kind: 'device', devicePath: path, device: { major, minor }, readonly: false } as const;
}
