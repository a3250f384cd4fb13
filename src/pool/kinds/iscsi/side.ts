import { setTimeout as delay } from 'node:timers/promises';
import { IscsiError, iscsiLogout } from '../../../command/iscsiadm.ts';
import { askMultipathd } from '../../../command/multipathd.ts';
import { deleteLun, type IscsiLun, type IscsiSession, rescanLun, scanLun } from '../../../kernel/block/iscsi.ts';
import { activePathsOf, type MultipathMap, reinstatePath } from '../../../kernel/block/multipath.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { sameDevice } from '../../../kernel/device.ts';
import { Aborted, FailedPrecondition, type HoldfastError, NotFound, Unavailable } from '../../../volume/errors.ts';
import { step } from '../../../volume/step.ts';
import type { PoolLog } from '../../log.ts';
import { isHeld } from '../../network-disk/held.ts';
import { NetworkDiskSide } from '../../network-disk/side.ts';
import type {
  ConnectOptions,
  NetworkDevice,
  Target,
  TargetConnection,
  VolumePaths,
} from '../../network-disk/target.ts';
import type { NodeSide, NodeSideContext, VolumeOnNode } from '../../node-side.ts';
import { connectOne, isLive } from './connect.ts';
import { type Connection, type IscsiNote, isThrough, lunsOf, ourSessions, targets } from './connections.ts';
import { parseIscsiContext } from './context.ts';
import { identityOf, isUsedByAnother, namesOf, placed, refusalOfPaths } from './identity.ts';
import { devicesAbove, devicesFor, foreignPathOf, hasPath, mapsLeft, mapsOver, ownMaps } from './multipath.ts';
import { connectPaths, hasActivePath, heldMapOf, removeMaps, resumeWaiting, stopWaiting } from './paths.ts';
import { ifaceName } from './record.ts';
import { iscsiRunner, isMultipathdAnswering, missingProgram, multipathRunner } from './runner.ts';

type Named = Pick<VolumeOnNode, 'context' | 'handle'>;

/** A session that was logged out goes a moment later. */
const gonePausesMs: readonly number[] = Array.from({ length: 40 }, () => 100);
/** A path whose unit is gone is lost again sooner. */
const triedAgainMs = 2_000;

export async function openIscsiSide(context: NodeSideContext): Promise<NodeSide> {
  const { dataDirectory, log, queue, server } = context;
  return new NetworkDiskSide(
    'iscsi',
    context,
    new IscsiTarget(server, log),
    await targets.open(queue, dataDirectory, server),
  );
}

class IscsiTarget implements Target<Connection> {
  readonly name: string;
  readonly nameKey = 'iqn';
  readonly noun = 'logical unit';
  readonly lossKey = 'replacementTimeout';
  readonly #log: PoolLog;

  constructor(iqn: string, log: PoolLog) {
    this.name = iqn;
    this.#log = log;
  }

  async connect(volume: Named, options: ConnectOptions<Connection>): Promise<void> {
    const context = parseIscsiContext(volume.context);
    await connectOne(volume, context, options);
    for (const reason of await connectPaths(volume, context, options)) {
      this.#log.warn({ volume_id: volume.handle, iqn: this.name, reason }, 'a portal of a volume cannot be used');
    }
  }

  async disconnect(queue: DiskQueue, note: IscsiNote): Promise<void> {
    const sessions = ourSessions(this.name, note);
    const maps = ownMaps(sessions.flatMap(({ luns }) => luns));
    const logOut = () => this.#logOut(queue, sessions, note);
    await removeMaps(queue, maps, logOut, () => mapsLeft(note.identities));
  }

  /** Below a map nothing waits in a session for longer than multipathd lets it (fast_io_fail_tmo). */
  async giveUp(queue: DiskQueue, volume: Named, note: IscsiNote): Promise<boolean> {
    const maps = this.#mapsInUse(volume, note);
    if (await this.#tryPathsAgain(queue, maps, note)) return false;
    for (const map of maps) await stopWaiting(queue, map);
    return maps.length > 0;
  }

  /** Without multipathd a path stays lost when its session is back. @returns true: one works */
  async #tryPathsAgain(queue: DiskQueue, maps: readonly MultipathMap[], note: IscsiNote): Promise<boolean> {
    if (await isMultipathdAnswering(queue)) return false;
    const live = ourSessions(this.name, note)
      .filter(isLive)
      .flatMap(({ luns }) => luns);
    for (const map of maps) {
      const back = map.paths.filter((path) => live.some(({ name }) => name === path.name));
      for (const path of back) await reinstatePath(queue, map, path);
    }
    await delay(triedAgainMs);
    return await hasActivePath(queue, maps);
  }

  async #logOut(queue: DiskQueue, sessions: readonly IscsiSession[], note: IscsiNote): Promise<void> {
    if (sessions.length === 0) return;
    const runner = await iscsiRunner(queue);
    if (runner === undefined) throw new FailedPrecondition(`${missingProgram}.`);
    let reason = 'it does not go';
    for (const { id } of sessions) {
      await step('iscsi/logout', () => iscsiLogout(runner, { iface: ifaceName, id })).catch((error: unknown) => {
        if (!(error instanceof IscsiError)) throw error;
        reason = error.isMissing ? missingProgram : error.message;
      });
    }
    for (const pauseMs of gonePausesMs) {
      if (ourSessions(this.name, note).length === 0) return;
      await delay(pauseMs);
    }
    throw new Unavailable(`a session to ${this.name} cannot be ended, and is tried again: ${reason}.`);
  }

  /** Sessions of other programs have separate devices. */
  connections(note: IscsiNote): TargetConnection[] {
    return ourSessions(this.name, note).map((each) => ({ name: each.name, isLive: isLive(each), isOurs: true }));
  }

  /** A session may live without the unit, or be another volume's: then all paths below a map are lost. */
  async isServed(queue: DiskQueue, volume: Named, note: IscsiNote): Promise<boolean | undefined> {
    const maps = this.#mapsInUse(volume, note);
    return maps.length === 0 ? undefined : await hasActivePath(queue, maps);
  }

  async pathsOf(queue: DiskQueue, volume: Named, note: IscsiNote): Promise<VolumePaths | undefined> {
    const context = parseIscsiContext(volume.context);
    const sessions = ourSessions(this.name, note);
    const [map] = mapsOver(lunsOf(sessions, context));
    if (map === undefined) return undefined;
    const active = await activePathsOf(queue, map);
    return context.portals.map((portal) => {
      const session = sessions.find((each) => isThrough({ portals: [portal] }, each));
      const luns = session === undefined || !isLive(session) ? [] : lunsOf([session], context);
      return {
        name: `${portal.address}:${portal.port}`,
        isLive: luns.some((each) => active.some((path) => sameDevice(path, each.device))),
      };
    });
  }

  async faultOf(queue: DiskQueue, paths: VolumePaths | undefined): Promise<string | undefined> {
    if (paths === undefined) return undefined;
    const runner = await multipathRunner(queue);
    if (runner === undefined) {
      return 'multipathd of the node does not run: a path that is lost is not used again. Start it (systemctl start multipathd).';
    }
    if (paths.every(({ isLive }) => isLive) || (await isMultipathdAnswering(queue))) return undefined;
    return 'multipathd of the node does not answer: a path that is lost may not be used again. See systemctl status multipathd.';
  }

  devicesOf(volume: Named, note: IscsiNote): readonly NetworkDevice[] {
    return devicesFor(this.#lunsOf(volume, note));
  }

  devicesLeft({ handle }: Named, note: IscsiNote): readonly NetworkDevice[] {
    return mapsLeft(note.identities, handle);
  }

  devicesOfOurs(note: IscsiNote): readonly NetworkDevice[] {
    return devicesAbove(ourSessions(this.name, note).flatMap(({ luns }) => luns));
  }

  async rescan(queue: DiskQueue, volume: Named, note: IscsiNote): Promise<void> {
    const { lun } = parseIscsiContext(volume.context);
    await this.#rescanPaths(queue, volume, note);
    const found = this.#lunsOf(volume, note);
    const [map] = mapsOver(found);
    if (map !== undefined && found.some(({ sizeBytes }) => sizeBytes > map.sizeBytes)) {
      await this.#resize(queue, volume, map, found);
    }
    const session = found.length > 0 ? undefined : this.#sessionFor(volume, note);
    if (session !== undefined) await step('iscsi/scan', () => scanLun(queue, session, lun));
  }

  /** The kernel asks each path separately; multipathd makes the map as large as they are. It needs all paths for that. */
  async #resize(queue: DiskQueue, { handle }: Named, map: MultipathMap, found: readonly IscsiLun[]) {
    const { name } = map;
    const used = found.filter((each) => hasPath([map], each));
    const failed = (reason: string) =>
      new Unavailable(`volume ${handle}: ${name} of multipathd has not grown: ${reason}. It is tried again.`);
    const [small] = used.filter(({ sizeBytes }) => used.some((other) => other.sizeBytes > sizeBytes));
    if (small !== undefined) throw failed(`its path ${small.name} is down, or its portal shows the old size`);
    const runner = await multipathRunner(queue);
    if (runner === undefined) throw failed('multipathd of this node does not run');
    const answer = await step('iscsi/resize', () => askMultipathd(runner, ['resize', 'map', name]));
    if (answer?.endsWith('ok') !== true) throw failed(`multipathd says ${JSON.stringify(answer ?? 'nothing')}`);
  }

  /**
   * A logical unit is a number that a target gives to another volume one day: its identity is asked for again, and compared
   * with the one that the PersistentVolume names, and with that of the same use before. Each path of a map must be a device of
   * this driver's sessions, with that identity.
   */
  async identify(queue: DiskQueue, volume: Named, device: NetworkDevice, note: IscsiNote): Promise<string> {
    await this.#rescanPaths(queue, volume, note);
    const { lun, wwid } = parseIscsiContext(volume.context);
    const failed = (reason: string) =>
      new FailedPrecondition(`volume ${volume.handle}: logical unit ${lun} of ${this.name} ${reason}.`);
    const own = this.#ownLuns(note, lun);
    const now = devicesFor(this.#lunsOf(volume, note)).find((each) => sameDevice(each.device, device.device));
    if (now === undefined) throw new Aborted(`volume ${volume.handle}: ${device.name} has changed; try again.`);
    const foreign = foreignPathOf(now, own);
    if (foreign !== undefined) {
      if (!isUsedByAnother(note, volume.handle, lun)) await this.#releaseFrom(queue, own);
      throw failed(
        `is in ${now.name} of multipathd beside ${foreign}, which is not this driver's: end that session, or leave the unit out in multipath.conf (blacklist)`,
      );
    }
    const known = { wwid, seen: note.identities?.[volume.handle] };
    const paths = await Promise.all((now.paths ?? [now]).map((each) => namesOf(queue, each.device)));
    const map = mapsOver(own).find(({ name }) => name === now.name);
    const refusal = refusalOfPaths(lun, paths, known, map);
    const identity = identityOf(paths[0] ?? [], map);
    if (identity === undefined || refusal !== undefined) throw failed(`${refusal}`);
    return placed(lun, identity);
  }

  /** Devices that another volume, or another program, uses stay. */
  async drop(queue: DiskQueue, volume: Named, note: IscsiNote): Promise<void> {
    const { lun } = parseIscsiContext(volume.context);
    if (isUsedByAnother(note, volume.handle, lun)) return;
    const luns = this.#ownLuns(note, lun);
    const deleteFree = async () => {
      const maps = ownMaps(luns);
      for (const each of luns) {
        // The volume's map holds its paths while a program has it open, as it would at a logout.
        if (!hasPath(maps, each) && (await isHeld(queue, each.devicePath))) continue;
        await step('iscsi/delete', () => deleteLun(queue, each));
      }
    };
    await removeMaps(queue, ownMaps(luns), deleteFree, () => mapsLeft(note.identities, volume.handle));
  }

  /** A map of several volumes is let go with the last of them, and one of another program by that. */
  async heldBeyond(queue: DiskQueue, volume: Named, note: IscsiNote): Promise<NetworkDevice | undefined> {
    return await heldMapOf(queue, this.#mapsOf(volume, note));
  }

  async resume(queue: DiskQueue, volume: Named, note: IscsiNote): Promise<void> {
    for (const map of this.#mapsOf(volume, note)) await resumeWaiting(queue, map);
  }

  notThere({ context, handle }: Named): HoldfastError {
    const { lun } = parseIscsiContext(context);
    return new NotFound(
      `volume ${handle}: ${this.name} has no logical unit ${lun} for this node: map it to the initiator name of the node, or correct the lun.`,
    );
  }

  isTwice({ context, handle }: Named, one: NetworkDevice, other: NetworkDevice): HoldfastError {
    const { lun } = parseIscsiContext(context);
    return new FailedPrecondition(
      `volume ${handle}: ${one.name} and ${other.name} are both logical unit ${lun} of ${this.name}. End the pods of its volumes, so that one session is left.`,
    );
  }

  /** The devices of a number, through any portal. */
  #ownLuns(note: IscsiNote, lun: string): IscsiLun[] {
    return ourSessions(this.name, note).flatMap(({ luns }) => luns.filter((each) => each.lun === lun));
  }

  /** The maps of this volume alone through which it is read and written. One without paths beside a device is older. */
  #mapsInUse(volume: Named, note: IscsiNote): MultipathMap[] {
    const isDevice = this.#lunsOf(volume, note).length > 0;
    return this.#mapsOf(volume, note).filter(({ paths }) => !isDevice || paths.length > 0);
  }

  /** The maps that are of this volume alone, also without paths. */
  #mapsOf({ context, handle }: Named, note: IscsiNote): MultipathMap[] {
    const { lun } = parseIscsiContext(context);
    if (isUsedByAnother(note, handle, lun)) return [];
    return [...ownMaps(this.#ownLuns(note, lun)), ...mapsLeft(note.identities, handle)];
  }

  #lunsOf({ context }: Named, note: IscsiNote): IscsiLun[] {
    return lunsOf(ourSessions(this.name, note), parseIscsiContext(context));
  }

  /** A path without its session would wait until the kernel gives it up. */
  async #rescanPaths(queue: DiskQueue, { context }: Named, note: IscsiNote): Promise<void> {
    const live = ourSessions(this.name, note).filter(isLive);
    for (const lun of lunsOf(live, parseIscsiContext(context))) await rescanLun(queue, lun);
  }

  /** Takes this driver's paths out of a map of another program: then they go with their session. */
  async #releaseFrom(queue: DiskQueue, luns: readonly IscsiLun[]): Promise<void> {
    const runner = await multipathRunner(queue);
    if (runner === undefined) return;
    for (const { name } of luns) await step('iscsi/unmap', () => askMultipathd(runner, ['del', 'path', name]));
  }

  #sessionFor({ context }: Named, note: IscsiNote): IscsiSession | undefined {
    const parsed = parseIscsiContext(context);
    return ourSessions(this.name, note).find((each) => isLive(each) && isThrough(parsed, each));
  }
}
