import { setTimeout as delay } from 'node:timers/promises';
import { askMultipathd, type MultipathRunner } from '../../../command/multipathd.ts';
import { deleteLun, type IscsiLun, scanLun } from '../../../kernel/block/iscsi.ts';
import {
  activePathsOf,
  failWithoutPaths,
  isWaiting,
  type MultipathMap,
  multipathMapOver,
  removeMapWhenUnused,
  removeMultipathMap,
  removePartitions,
  waitWithoutPaths,
} from '../../../kernel/block/multipath.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { FailedPrecondition, Unavailable } from '../../../volume/errors.ts';
import { step } from '../../../volume/step.ts';
import { isHeld } from '../../network-disk/held.ts';
import type { ConnectOptions } from '../../network-disk/target.ts';
import type { VolumeOnNode } from '../../node-side.ts';
import { connectRest, isLive } from './connect.ts';
import { type Connection, isThrough, lunsOf, ourSessions } from './connections.ts';
import type { IscsiContext } from './context.ts';
import { namesOf } from './identity.ts';
import { foreignPathOf, mapsOver } from './multipath.ts';
import { multipathRunner } from './runner.ts';
import { multipathName } from './wwid.ts';

type Options = ConnectOptions<Connection>;

/** udev looks into a new device before multipathd does. */
const waitMs = 15_000;
/** A unit that was scanned shows its device sooner. */
const unitWaitMs = 4_000;
const pauseMs = 500;

/**
 * Uses all portals of a volume at once, where the node's multipathd makes a map of its unit. The map comes first, over one
 * path; then the other sessions, whose paths join it. So there are never two devices of one unit that do not know each other.
 * @returns the reasons of portals that cannot be used
 * @throws FailedPrecondition if several paths are needed, and not possible
 */
export async function connectPaths(
  { handle }: Pick<VolumeOnNode, 'handle'>,
  context: IscsiContext,
  options: Options,
): Promise<readonly string[]> {
  const { multipath, portals } = context;
  const sessions = () => ourSessions(context.iqn, options.state.notes.note);
  const luns = () => lunsOf(sessions(), context);
  const isWanted = multipath ?? portals.length > 1;
  const runner = isWanted ? await multipathRunner(options.queue) : undefined;
  const map = runner === undefined ? mapsOver(luns())[0] : await mapOf(runner, context, options);
  if (map === undefined) {
    if (multipath === true) {
      const reason = runner === undefined ? 'does not run' : 'makes no map of the unit (is it in its blacklist?)';
      throw new FailedPrecondition(`volume ${handle}: multipath is "true", but multipathd of this node ${reason}.`);
    }
    const [silent] = mapsOver(luns());
    if (silent !== undefined) {
      throw new Unavailable(
        `volume ${handle}: multipathd of this node makes no map of its unit, and ${silent.name} has lost all paths. It is tried again; see systemctl status multipathd, and end the use of that map.`,
      );
    }
    const live = lunsOf(sessions().filter(isLive), context);
    await leaveOne(options.queue, [...live, ...luns().filter((each) => !live.some(({ name }) => name === each.name))]);
    return [];
  }
  // A map that is not of these paths alone is refused later, by its name.
  if (runner === undefined || foreignPathOf(map, luns()) !== undefined) return [];
  // An unstage that did not come to its end has left it so.
  if (!(await isWaiting(options.queue, map))) await resumeWaiting(options.queue, map);
  const failures = await connectRest(context, options);
  await scanRest(runner, context, options);
  return failures;
}

/** @returns undefined: multipathd does not want the unit, or it is in use without a map */
async function mapOf(
  runner: MultipathRunner,
  context: IscsiContext,
  { queue, state }: Options,
): Promise<MultipathMap | undefined> {
  const sessions = () => ourSessions(context.iqn, state.notes.note).filter(isLive);
  const first = sessions().find((each) => isThrough(context, each));
  if (first !== undefined && lunsOf(sessions(), context).length === 0) {
    await step('iscsi/scan', () => scanLun(queue, first, context.lun));
  }
  const sinceMs = performance.now();
  while (performance.now() - sinceMs < waitMs) {
    const luns = lunsOf(sessions(), context);
    const [map] = mapsOver(luns);
    if (map !== undefined) return map;
    const [lun] = luns;
    // The target has no such unit: that is found out later, too.
    if (lun === undefined && performance.now() - sinceMs > unitWaitMs) return undefined;
    if (lun !== undefined && !(await askForMap(queue, runner, lun))) return undefined;
    await delay(pauseMs);
  }
  return undefined;
}

/**
 * Names the path first: then multipathd knows it, whatever it has seen of udev. Asked for by name, it makes a map over one path
 * too, whatever its `find_multipaths`. @returns false: it leaves the unit out
 */
async function askForMap(queue: DiskQueue, runner: MultipathRunner, { device, name }: IscsiLun): Promise<boolean> {
  const [identity] = await namesOf(queue, device);
  const wwid = identity === undefined ? undefined : multipathName(identity);
  if (wwid === undefined) return false;
  const answer = await askMultipathd(runner, ['add', 'path', name]);
  if (answer === undefined || /blacklisted/.test(answer)) return false;
  return !/blacklisted/.test((await step('iscsi/map', () => askMultipathd(runner, ['add', 'map', wwid]))) ?? '');
}

/** Waits until each session has its path in the map, within limits: a path that does not come is seen in the condition. */
async function scanRest(runner: MultipathRunner, context: IscsiContext, { queue, state }: Options): Promise<void> {
  const sessions = () =>
    ourSessions(context.iqn, state.notes.note).filter((each) => isLive(each) && isThrough(context, each));
  for (const session of sessions().filter((each) => lunsOf([each], context).length === 0)) {
    await step('iscsi/scan', () => scanLun(queue, session, context.lun));
  }
  const sinceMs = performance.now();
  while (performance.now() - sinceMs < waitMs) {
    const luns = lunsOf(sessions(), context);
    const outside = luns.filter(({ name }) => multipathMapOver(name) === undefined);
    if (outside.length === 0 && luns.length >= sessions().length) return;
    for (const { name } of outside) await askMultipathd(runner, ['add', 'path', name]);
    await delay(pauseMs);
  }
}

/** Without a map one device of the unit is left: the kernel would take two for two disks. */
async function leaveOne(queue: DiskQueue, luns: readonly IscsiLun[]): Promise<void> {
  const free: IscsiLun[] = [];
  for (const lun of luns) if (!(await isHeld(queue, lun.devicePath))) free.push(lun);
  const surplus = free.length === luns.length ? free.slice(1) : free;
  for (const lun of surplus) await step('iscsi/delete', () => deleteLun(queue, lun));
}

/**
 * Removes the maps over paths of volumes that are not in use any more, then the paths. Reads and writes do not wait for the
 * target from now on: a udev that looks into a map would hold it for ever. A map that a program has open goes with that program.
 * @param left the maps that have lost all paths
 */
export async function removeMaps(
  queue: DiskQueue,
  maps: readonly MultipathMap[],
  removePaths: () => Promise<void>,
  left: () => readonly MultipathMap[],
): Promise<void> {
  for (const map of maps) {
    await stopWaiting(queue, map);
    await step('iscsi/unmap', () => removeMultipathMap(queue, map));
  }
  await removePaths();
  for (const map of left()) {
    await failWithoutPaths(queue, map);
    await step('iscsi/unmap', () => removeMapWhenUnused(queue, map));
  }
}

/**
 * Removes the partitions over maps of a volume that is not in use any more, which would hold them.
 * @returns the first map that is held nevertheless
 */
export async function heldMapOf(queue: DiskQueue, maps: readonly MultipathMap[]): Promise<MultipathMap | undefined> {
  for (const map of maps) {
    // A udev that reads a partition has it open.
    if (!(await hasActivePath(queue, [map]))) await stopWaiting(queue, map);
    await removePartitions(queue, map);
    if (await isHeld(queue, map.devicePath)) return map;
  }
  return undefined;
}

/** Answers if one of the maps has a path that works. */
export async function hasActivePath(queue: DiskQueue, maps: readonly MultipathMap[]): Promise<boolean> {
  for (const map of maps) if ((await activePathsOf(queue, map)).length > 0) return true;
  return false;
}

/** The WWIDs of maps whose reads and writes waited before `stopWaiting`. */
const stopped = new Set<string>();

/** Undoes `stopWaiting` for a map that is still in use: multipathd knows its setting. */
export async function resumeWaiting(queue: DiskQueue, map: MultipathMap): Promise<void> {
  const runner = await multipathRunner(queue);
  const answer = runner && (await askMultipathd(runner, ['restorequeueing', 'map', map.name]));
  if (answer === undefined && stopped.has(map.wwid)) await waitWithoutPaths(queue, map);
  stopped.delete(map.wwid);
}

/** multipathd would let reads and writes wait again when it changes the map; it may not run. */
export async function stopWaiting(queue: DiskQueue, map: MultipathMap): Promise<void> {
  if (await isWaiting(queue, map)) stopped.add(map.wwid);
  const runner = await multipathRunner(queue);
  if (runner !== undefined) await askMultipathd(runner, ['disablequeueing', 'map', map.name]);
  await failWithoutPaths(queue, map);
}
