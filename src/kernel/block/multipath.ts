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
 * Removes a map, with the devices that kpartx(8) has made of its partitions, if no program has them open. It is found by its
 * UUID: the number may be given to another device.
 * @returns false: it is in use
 */
export async function removeMultipathMap(queue: DiskQueue, { name, wwid }: Named): Promise<boolean> {
  const mapper = await DeviceMapper.open(queue);
  const wanted = { uuid: uuidPrefix + wwid };
  for (const pauseMs of removalPausesMs) {
    await delay(pauseMs);
    for (const uuid of partitionsOf(name, wwid)) await mapper.removeUnused(queue, { uuid });
    await mapper.removeUnused(queue, wanted);
    if (mapper.find(wanted) === undefined) return true;
  }
  return false;
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

/** Reads and writes fail from now on while no path works; they do not wait. Gone is fine. */
export async function failWithoutPaths(queue: DiskQueue, { wwid }: Named): Promise<void> {
  const mapper = await DeviceMapper.open(queue);
  await mapper.tell(queue, { uuid: uuidPrefix + wwid }, 'fail_if_no_path').catch((error: unknown) => {
    if (!isErrno(error, 'ENXIO')) throw error;
  });
}
