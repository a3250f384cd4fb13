import { realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { isDeviceGone } from '../../kernel/block/device-node.ts';
import { isMapWithoutPaths } from '../../kernel/block/multipath.ts';
import type { Descriptor } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { type Mount, readMountTable } from '../../kernel/mount/mount-table.ts';
import { isBtrfs } from '../../kernel/mount/mounts-of-device.ts';
import { DataLoss, FailedPrecondition, HoldfastError, NotFound, Unavailable } from '../../volume/errors.ts';
import type { FilesystemType } from '../../volume/filesystem.ts';
import { Turns } from '../../volume/flow/turns.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import type { VolumeHandle } from '../../volume/handle.ts';
import { shortPath } from '../../volume/short-path.ts';
import { abnormal, type PoolCondition, silentAfterMs, silentCondition } from '../condition.ts';
import { detachUnseen } from '../detach-unseen.ts';
import type { PoolLog } from '../log.ts';
import {
  type ContextDemand,
  type FoundOnNode,
  fateOf,
  type NodeKind,
  type OwnedOnNode,
  type SeenAt,
  type VolumeAccess,
  type VolumeContext,
  type VolumeOnNode,
  type VolumeSource,
} from '../node-side.ts';
import type { Attached, AttachOptions, Condition } from '../pool.ts';
import { kindOfContext } from '../volume-context.ts';
import { diskOfNote, fateOfNote, isAt, serversOf, volumeOf } from './noted-volume.ts';
import type { Server, Servers, ServerUse } from './servers.ts';
import { type VolumeNote, VolumeNotes } from './volume-notes.ts';

export interface ContextVolumesOptions {
  readonly kinds: readonly NodeKind[];
  readonly servers: Servers;
  /** For the notes. */
  readonly directory: string;
  /** For the node's own files and the directories of the container orchestrator. */
  readonly queue: DiskQueue;
  readonly log: PoolLog;
}

/** A server whose volumes this node uses. */
export interface UsedServer {
  readonly kind: string;
  readonly server: string;
  readonly volumes: number;
  /** Answers if the server does; undefined: volumes of its kind have none. @throws Unavailable */
  ask(): Promise<boolean | undefined>;
}

/**
 * The volumes that any node of the cluster can reach. What they are is in their context, which comes with a stage and a
 * publish; for all other calls this node keeps a note.
 */
export class ContextVolumes implements VolumeSource {
  readonly #options: ContextVolumesOptions;
  readonly #notes: VolumeNotes;
  /** Two volumes that are one disk, and come at once: one is refused. */
  readonly #holding = new Turns();
  /** Noted by this process: they may be on their way to their device. */
  readonly #held = new Set<VolumeHandle>();

  private constructor(options: ContextVolumesOptions, notes: VolumeNotes) {
    this.#options = options;
    this.#notes = notes;
  }

  static async open(options: ContextVolumesOptions): Promise<ContextVolumes> {
    const { directory, log, queue } = options;
    return new ContextVolumes(options, await VolumeNotes.open(directory, queue, log));
  }

  async require(handle: VolumeHandle, given: VolumeContext, demand: ContextDemand): Promise<FoundOnNode> {
    const { kind, context } = kindOfContext(given, this.#options.kinds);
    kind.requireHandle?.(handle, context);
    const volume = volumeOf(kind, { handle, context, provisioning: 'thin', ...kind.read(context, demand) });
    const note = this.#notes.read(handle);
    if (note !== undefined) await this.#requireSame(note, kind, volume);
    return { volume, access: await this.#accessTo(kind, volume) };
  }

  async requireKnown(handle: VolumeHandle): Promise<FoundOnNode> {
    this.#notes.requireReadable(handle);
    const note = this.#notes.read(handle);
    if (note === undefined) throw new NotFound(`volume ${handle} is not in use on this node.`);
    return await this.#found(note);
  }

  async findIfPossible(handle: VolumeHandle): Promise<FoundOnNode | undefined> {
    try {
      return await this.requireKnown(handle);
    } catch (error) {
      if (error instanceof HoldfastError) return undefined;
      throw error;
    }
  }

  /** Two volumes may be the same data: then the one that was put there, or else the one that is asked about. */
  async ownerOf(seen: SeenAt, asked: string): Promise<OwnedOnNode | undefined> {
    const rank = (note: VolumeNote) => (isAt(note, seen.target) ? 0 : note.volume.handle === asked ? 1 : 2);
    for (const note of this.#notes.all().sort((a, b) => rank(a) - rank(b))) {
      const shown = shownOf(note, this.#kindOf(note), seen);
      if (shown === undefined) continue;
      // Its server may not be usable at all: then it can still be unmounted.
      const found = await this.findIfPossible(note.volume.handle);
      return { handle: note.volume.handle, isWhole: shown === 'whole', access: found?.access };
    }
    return undefined;
  }

  isOfAnother({ target }: Pick<Mount, 'target'>, handle: VolumeHandle): boolean {
    if (this.#options.kinds.some((kind) => kind.isOwnMount?.(target))) return true;
    return this.#notes.all().some((note) => note.volume.handle !== handle && isAt(note, target));
  }

  async conditionOf({ access, handle }: OwnedOnNode): Promise<PoolCondition> {
    const volume = access instanceof ContextVolume && access.handle === handle ? access : undefined;
    if (volume === undefined) return { condition: unknownServer, isSick: false };
    const answer = await withTimeout(silentAfterMs, volume.condition());
    return { condition: answer === 'late' ? silentCondition : answer, isSick: false };
  }

  async hold({ access, volume }: FoundOnNode, path: string): Promise<void> {
    if (!(access instanceof ContextVolume)) return;
    const { paths = [] } = this.#notes.read(volume.handle) ?? {};
    const place = await this.#resolved(path);
    if (paths.includes(place) && this.#held.has(volume.handle)) return;
    await this.#holding.run(async () => {
      await this.#requireAlone(access.kind, volume);
      if (!paths.includes(place)) await this.#notes.write({ kind: access.kind.name, volume, paths: [...paths, place] });
      this.#held.add(volume.handle);
    });
  }

  /** @throws FailedPrecondition if another volume that is in use on this node is the same disk */
  async #requireAlone(kind: NodeKind, volume: VolumeOnNode): Promise<void> {
    const disk = kind.diskOf?.(volume);
    if (disk === undefined) return;
    for (const note of this.#notes.all()) {
      const { handle } = note.volume;
      if (handle === volume.handle || note.kind !== kind.name || diskOfNote(note, kind) !== disk) continue;
      if (!this.#held.has(handle) && !(await this.#isUsed(note))) continue;
      const [where] = note.paths;
      throw new FailedPrecondition(
        `volume ${volume.handle} is the same disk as volume ${handle}, which is in use on this node${where === undefined ? '' : ` at ${shortPath(where)}`}: end that use first, or remove one of the two PersistentVolumes.`,
      );
    }
  }

  async letGo(handle: VolumeHandle, path: string): Promise<void> {
    this.#notes.requireReadable(handle);
    const note = this.#notes.read(handle);
    if (note === undefined) return;
    const place = await this.#resolved(path);
    const paths = note.paths.filter((each) => each !== place);
    if (paths.length === note.paths.length) return;
    await this.#requireUnmounted(note, place);
    if (paths.length > 0) await this.#notes.write({ ...note, paths });
    else await this.#end({ ...note, paths });
  }

  /** The caller tells Kubernetes that the volume is not here: another node may mount it next. @throws Unavailable */
  async #requireUnmounted(note: VolumeNote, path: string): Promise<void> {
    const table = await readMountTable(this.#options.queue);
    if (!table.some(({ target }) => isAt({ ...note, paths: [path] }, target))) return;
    throw new Unavailable(
      `volume ${note.volume.handle} still has a mount at ${shortPath(path)}, which this driver cannot tell to be its own: unmount it by hand, or use the driver that made it.`,
    );
  }

  /** The servers of the volumes that this node uses. */
  servers(): UsedServer[] {
    return serversOf(this.#notes.all(), this.#options.kinds).map(({ kind, server, volumes }) => {
      const [volume] = volumes;
      const ask = async () => {
        // One with too many calls that hang is not asked any more.
        const { side } = await this.#options.servers.get(kind, volume);
        return await side.isAnswering?.(volume);
      };
      return { kind: kind.name, server, volumes: volumes.length, ask };
    });
  }

  /** Finishes the work of a driver before this one: thaws filesystems, and detaches devices of volumes that are not in use. */
  async tidyUp(): Promise<void> {
    const { log } = this.#options;
    for (const note of this.#notes.all()) {
      const isUsed = note.paths.length > 0;
      const message = isUsed ? 'cannot thaw the filesystem of a volume' : 'cannot detach a volume that is not used';
      const work = isUsed ? this.#thawLeft(note) : this.#end(note);
      await work.catch((error: unknown) => log.warn({ volume_id: note.volume.handle, err: error }, message));
    }
  }

  async #thawLeft(note: VolumeNote): Promise<void> {
    if (note.volume.content.type !== 'mount' || this.#kindOf(note) === undefined) return;
    const { access } = await this.#found(note);
    await access.thawLeft();
  }

  /** The note goes last: without it no driver could find and detach the rest of the volume. */
  async #end(note: VolumeNote): Promise<void> {
    const kind = this.#requireKind(note);
    if (kind.traits.detaching === 'explicit') {
      const { access } = await this.#found(note, { isLeaving: true });
      await detachUnseen(this.#options.queue, access);
      // A connection that other volumes share stays for them, and ends with the last of them.
      if (!this.#isShared(kind, note) && (await access.attached()).length > 0) {
        await this.#notes.write(note);
        return;
      }
      await access.forget();
    }
    await this.#notes.remove(note.volume.handle);
    this.#held.delete(note.volume.handle);
    if (!this.#isShared(kind, note)) this.#options.servers.forget(kind, volumeOf(kind, note.volume));
  }

  /** Answers if other volumes of this node share the fate of this one. */
  #isShared(kind: NodeKind, note: VolumeNote): boolean {
    const fate = fateOf(kind, volumeOf(kind, note.volume));
    return this.#notes
      .all()
      .filter(({ volume, ...other }) => other.kind === note.kind && volume.handle !== note.volume.handle)
      .some((other) => fateOfNote(other, kind) === fate);
  }

  /** @throws FailedPrecondition if the handle stands for another volume that is in use on this node */
  async #requireSame(note: VolumeNote, kind: NodeKind, volume: VolumeOnNode): Promise<void> {
    const difference = differenceOf(note, kind, volume);
    if (difference === undefined) return;
    // The volume may have been staged before a reboot: the kubelet does not unstage a volume that is not mounted.
    if (!(await this.#isUsed(note))) return await this.#notes.remove(note.volume.handle);
    const [where] = note.paths;
    throw new FailedPrecondition(
      `volume ${volume.handle} is in use on this node with ${difference}${where === undefined ? '' : ` at ${shortPath(where)}`}: end that use, or give this PersistentVolume another volumeHandle.`,
    );
  }

  async #isUsed(note: VolumeNote): Promise<boolean> {
    const table = await readMountTable(this.#options.queue);
    if (table.some(({ target }) => isAt(note, target))) return true;
    const kind = this.#kindOf(note);
    if (kind?.traits.detaching !== 'explicit') return false;
    return (await (await this.#found(note)).access.attached()).length > 0;
  }

  async #found(note: VolumeNote, use: ServerUse = {}): Promise<FoundOnNode & { readonly access: ContextVolume }> {
    const kind = this.#requireKind(note);
    const volume = volumeOf(kind, note.volume);
    return { volume, access: await this.#accessTo(kind, volume, use) };
  }

  #requireKind(note: VolumeNote): NodeKind {
    const kind = this.#kindOf(note);
    if (kind !== undefined) return kind;
    throw new Unavailable(
      `volume ${note.volume.handle} is of kind ${note.kind}, which this driver does not know: use the driver that staged it.`,
    );
  }

  async #accessTo(kind: NodeKind, volume: VolumeOnNode, use: ServerUse = {}): Promise<ContextVolume> {
    return new ContextVolume(volume, kind, await this.#options.servers.get(kind, volume, use));
  }

  #kindOf(note: VolumeNote): NodeKind | undefined {
    return this.#options.kinds.find(({ name }) => name === note.kind);
  }

  /** The path as the mount table has it: symbolic links may lead to the root of the targets. */
  async #resolved(path: string): Promise<string> {
    const parent = await this.#options.queue.run(() => realpath(dirname(path)).catch(() => dirname(path)));
    return join(parent, basename(path));
  }
}

/** The part of a volume that is seen. Where its kind cannot tell, a mount at a path of the note is the volume. */
function shownOf(note: VolumeNote, kind: NodeKind | undefined, seen: SeenAt): 'whole' | 'part' | undefined {
  try {
    if (kind !== undefined) return kind.shows(volumeOf(kind, note.volume), seen) ?? shownByNote(note, kind, seen);
  } catch (error) {
    // Its context is one that only another version of this driver reads.
    if (!(error instanceof HoldfastError)) throw error;
  }
  return seen.mount !== undefined && isAt(note, seen.target) ? 'whole' : undefined;
}

/**
 * A device that is gone, as its server was given up, has no identity any more. A mount of it at a path of the note is the
 * volume: it must be unmounted.
 */
function shownByNote(note: VolumeNote, kind: NodeKind, { device, mount, target }: SeenAt) {
  if (kind.traits.detaching !== 'explicit' || mount === undefined || !isAt(note, target)) return undefined;
  // btrfs has a number that is no device's.
  const isGone = device === undefined ? isBtrfs(mount) : isDeviceGone(device) || isMapWithoutPaths(device);
  return isGone ? 'whole' : undefined;
}

/** The fact of a volume in which its note and a call differ. */
function differenceOf(note: VolumeNote, kind: NodeKind, { content, context }: VolumeOnNode): string | undefined {
  if (note.kind !== kind.name) return `kind ${note.kind}`;
  const keys = new Set([...Object.keys(note.volume.context), ...Object.keys(context)]);
  const different = [...keys].filter((key) => note.volume.context[key] !== context[key]);
  if (different.length > 0) return `other volumeAttributes (${different.join(', ')})`;
  return JSON.stringify(note.volume.content) === JSON.stringify(content) ? undefined : 'another fsType or volumeMode';
}

const unknownServer: Condition = abnormal('The server of this volume cannot be used; see the log.');
const answering: Condition = { abnormal: false, message: 'The volume is reachable.' };

/** A volume that this node knows from its context. */
class ContextVolume implements VolumeAccess {
  /** For a device with a filesystem: the server decides what a discard means to it. */
  readonly trimming = 'off';
  readonly isProvided = true;
  readonly #volume: VolumeOnNode;
  readonly #kind: NodeKind;
  readonly #server: Server;

  constructor(volume: VolumeOnNode, kind: NodeKind, server: Server) {
    this.#volume = volume;
    this.#kind = kind;
    this.#server = server;
  }

  get kind(): NodeKind {
    return this.#kind;
  }

  get handle(): VolumeHandle {
    return this.#volume.handle;
  }

  get poolName(): string {
    return this.#server.side.name;
  }

  get queue(): DiskQueue {
    return this.#server.queue;
  }

  get traits() {
    return this.#kind.traits;
  }

  get unmount(): VolumeAccess['unmount'] {
    const { side } = this.#server;
    return side.unmount && ((...where) => side.unmount?.(this.#volume, ...where) ?? Promise.resolve());
  }

  get isLost(): VolumeAccess['isLost'] {
    const { side } = this.#server;
    return side.isLost && (async (mount) => (await side.isLost?.(this.#volume, mount)) ?? false);
  }

  attach(options: AttachOptions) {
    return this.#server.side.attach(this.#volume, options);
  }

  attached() {
    return this.#server.side.attached(this.#volume);
  }

  async detach(attached: Attached) {
    await this.#server.side.detach?.(this.#volume, attached);
  }

  /** For a volume without a device: it is gone, or never was there. */
  async forget() {
    await this.#server.side.forget?.(this.#volume);
  }

  async endUnseenFreeze() {
    const { content, handle } = this.#volume;
    if (content.type !== 'mount') return;
    await this.#server.freezer.endUnseen({ id: handle, content, attached: await this.attached() });
  }

  async settleFilesystem(directory: Descriptor) {
    await this.#server.freezer.settle(this.handle, directory);
  }

  /** A driver that was killed while it settled the filesystem has left it frozen. */
  async thawLeft() {
    await this.#server.freezer.thawLeftOf(this.handle, () => this.attached());
  }

  async repair(fsType: FilesystemType) {
    throw new DataLoss(
      `volume ${this.handle}: its ${fsType} is damaged. This driver repairs a filesystem only on a clone, which ${this.poolName} does not make: back up the device, then run the checker of ${fsType}.`,
    );
  }

  async grow(sizeBytes: bigint) {
    return (await this.#server.side.grow?.(this.#volume, sizeBytes)) ?? sizeBytes;
  }

  async trim() {
    return undefined;
  }

  async quotaUsage() {
    return await this.#server.side.quotaUsage?.(this.#volume);
  }

  async condition(): Promise<Condition> {
    return (await this.#server.side.condition?.(this.#volume)) ?? answering;
  }
}
