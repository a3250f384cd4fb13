import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import { type DeviceNumber, parseDeviceNumber } from '../device.ts';
import { sysfsNames, sysfsText } from '../file/sysfs.ts';
import { DeviceMapper, mappedPath } from './device-mapper.ts';
import type { WayToDisk } from './disk-identity.ts';

/*
 * Maps of dm-multipath as sysfs shows them: one device over several paths to a disk. multipathd(8) makes them, and marks
 * them by their UUID.
 */

const uuidPrefix = 'mpath-';
const sectorBytes = 512n;

export interface MultipathMap {
  /** `dm-0`. */
  readonly name: string;
  readonly devicePath: string;
  readonly device: DeviceNumber;
  readonly sizeBytes: bigint;
  /** The name of multipathd for the disk: `36001405…`. */
  readonly wwid: string;
  /** None: all of them are gone, and a program still has the map open. */
  readonly paths: readonly WayToDisk[];
}

/** The map over a path; undefined: none. @param name of the path, `sda`. @param root of sysfs, for tests */
export function multipathMapOver(name: string, root = '/sys'): MultipathMap | undefined {
  return firstMap(sysfsNames(join(root, 'block', name, 'holders')), root);
}

/** The map of a disk. @param root of sysfs, for tests */
export function multipathMapOf(wwid: string, root = '/sys'): MultipathMap | undefined {
  const isOfDisk = (name: string) => sysfsText(join(root, 'block', name, 'dm/uuid')) === uuidPrefix + wwid;
  return firstMap(
    sysfsNames(join(root, 'block')).filter((name) => name.startsWith('dm-') && isOfDisk(name)),
    root,
  );
}

/** Answers if a device is a map that has lost all of its paths. @param root of sysfs, for tests */
export function isMapWithoutPaths({ major, minor }: DeviceNumber, root = '/sys'): boolean {
  const directory = join(root, 'dev/block', `${major}:${minor}`);
  if (sysfsText(join(directory, 'dm/uuid'))?.startsWith(uuidPrefix) !== true) return false;
  return sysfsNames(join(directory, 'slaves')).length === 0;
}

function firstMap(names: readonly string[], root: string): MultipathMap | undefined {
  for (const name of names) {
    const map = readMap(name, root);
    if (map !== undefined) return map;
  }
  return undefined;
}

function readMap(name: string, root: string): MultipathMap | undefined {
  const directory = join(root, 'block', name);
  const uuid = sysfsText(join(directory, 'dm/uuid'));
  const device = parseDeviceNumber(sysfsText(join(directory, 'dev')));
  const sectors = sysfsText(join(directory, 'size'));
  if (uuid?.startsWith(uuidPrefix) !== true || device === undefined || sectors === undefined) return undefined;
  return {
    ...{ name, device, devicePath: mappedPath(device), wwid: uuid.slice(uuidPrefix.length) },
    sizeBytes: BigInt(sectors) * sectorBytes,
    paths: sysfsNames(join(directory, 'slaves')).flatMap((path) => {
      const number = parseDeviceNumber(sysfsText(join(root, 'class/block', path, 'dev')));
      return number === undefined ? [] : [{ name: path, device: number }];
    }),
  };
}

type Named = Pick<MultipathMap, 'name' | 'wwid'>;

/** udev looks into a device for a moment, and has it open then. */
const removalPausesMs: readonly number[] = [0, ...Array.from({ length: 15 }, () => 200)];

/**
 * Removes a map, with its partitions, if no program has them open. It is found by its UUID: the number may be given to another
 * device.
 * @returns false: it is in use
 */
export async function removeMultipathMap(queue: DiskQueue, map: Named): Promise<boolean> {
  const mapper = await DeviceMapper.open(queue);
  const wanted = { uuid: uuidPrefix + map.wwid };
  for (const pauseMs of removalPausesMs) {
    await delay(pauseMs);
    await removeFreePartitions(queue, map);
    await mapper.removeUnused(queue, wanted);
    if (mapper.find(wanted) === undefined) return true;
  }
  return false;
}

/**
 * Removes the devices that kpartx(8) has made of a map's partitions, if no program has them open: they hold the map as a program
 * would. Those that are open keep it held.
 */
export async function removePartitions(queue: DiskQueue, map: Named): Promise<void> {
  for (const pauseMs of removalPausesMs) {
    await delay(pauseMs);
    if ((await removeFreePartitions(queue, map)) === 0) return;
  }
}

/** @returns the number of partitions that there were */
async function removeFreePartitions(queue: DiskQueue, { name, wwid }: Named): Promise<number> {
  const found = partitionsOf(name, wwid);
  for (const uuid of found) await (await DeviceMapper.open(queue)).removeUnused(queue, { uuid });
  return found.length;
}

/** The UUIDs of the devices that kpartx(8) has made over a map. @param root of sysfs, for tests */
export function partitionsOf(name: string, wwid: string, root = '/sys'): string[] {
  return sysfsNames(join(root, 'block', name, 'holders'))
    .flatMap((holder) => sysfsText(join(root, 'block', holder, 'dm/uuid')) ?? [])
    .filter((uuid) => /^part[0-9]+-/.test(uuid) && uuid.endsWith(`-${uuidPrefix}${wwid}`));
}

/** Removes a map that has no paths as soon as no program has it open. */
export async function removeMapWhenUnused(queue: DiskQueue, { wwid }: Named): Promise<void> {
  const mapper = await DeviceMapper.open(queue);
  await mapper.removeWhenUnused(queue, { uuid: uuidPrefix + wwid });
}

/** The paths of a map that work, as device-mapper has them. None if the map is gone. */
export async function activePathsOf(
  queue: DiskQueue,
  { wwid }: Pick<MultipathMap, 'wwid'>,
): Promise<readonly DeviceNumber[]> {
  const mapper = await DeviceMapper.open(queue);
  // An exact status would wait for the reads and writes that wait for a path.
  const status = await mapper.status(queue, { uuid: uuidPrefix + wwid }, false);
  return status === undefined ? [] : activePathsIn(status.text);
}

/** @param text a status: `2 0 1 0 1 1 A 0 2 2 8:0 F 1 0 1 8:16 A 0 0 1`; the group's state has the same letters. */
export function activePathsIn(text: string): readonly DeviceNumber[] {
  return [...text.matchAll(/(?<=^| )([0-9]+:[0-9]+) A(?= |$)/g)].flatMap(([, path]) => parseDeviceNumber(path) ?? []);
}

/** Reads and writes try a path again that was lost. multipathd does this when the path works. Gone is fine. */
export async function reinstatePath(
  queue: DiskQueue,
  { wwid }: Pick<MultipathMap, 'wwid'>,
  { device: { major, minor } }: Pick<WayToDisk, 'device'>,
): Promise<void> {
  const mapper = await DeviceMapper.open(queue);
  const message = `reinstate_path ${major}:${minor}`;
  await mapper.tell(queue, { uuid: uuidPrefix + wwid }, message).catch((error: unknown) => {
    if (!isErrno(error, 'ENXIO', 'EINVAL')) throw error;
  });
}

/** Reads and writes fail from now on while no path works; they do not wait. Gone is fine. */
export async function failWithoutPaths(queue: DiskQueue, map: Named): Promise<void> {
  await tellMap(queue, map, 'fail_if_no_path');
}

/** Reads and writes wait from now on while no path works. Gone is fine. */
export async function waitWithoutPaths(queue: DiskQueue, map: Named): Promise<void> {
  await tellMap(queue, map, waiting);
}

const waiting = 'queue_if_no_path';

async function tellMap(queue: DiskQueue, { wwid }: Named, message: string): Promise<void> {
  const mapper = await DeviceMapper.open(queue);
  await mapper.tell(queue, { uuid: uuidPrefix + wwid }, message).catch((error: unknown) => {
    if (!isErrno(error, 'ENXIO')) throw error;
  });
}

/** Answers if reads and writes of a map wait while no path works. */
export async function isWaiting(queue: DiskQueue, { wwid }: Named): Promise<boolean> {
  const mapper = await DeviceMapper.open(queue);
  const table = await mapper.table(queue, { uuid: uuidPrefix + wwid });
  return table !== undefined && isWaitingIn(table.text);
}

/** @param text a table: `1 queue_if_no_path 1 alua 1 1 service-time 0 1 2 8:0 1 1`; the features come first */
export function isWaitingIn(text: string): boolean {
  const [count, ...words] = text.split(' ');
  return words.slice(0, Number(count)).includes(waiting);
}
