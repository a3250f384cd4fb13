import { readdirSync } from 'node:fs';
import { readdir, readlink, realpath } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import type { DiskQueue } from '../call/disk-queue.ts';
import { type DeviceNumber, parseDeviceNumber } from '../device.ts';
import { nothingIfGone, readSysfs } from '../file/sysfs.ts';
import { type Bus, busOf } from './bus.ts';
import { permanentNameOf, readPage80 } from './disk-identity.ts';

/* The disks of this node, from sysfs. It lies in memory: no disk is opened or read. */

/** A part of a disk that the kernel shows as a separate device. */
export interface Partition {
  /** The kernel's name: `sda1`. */
  readonly name: string;
  readonly device: DeviceNumber;
  /** Devices that are built on it: `dm-0`. */
  readonly holders: readonly string[];
}

/** A whole disk. */
export interface Disk {
  /** The kernel's name, which another disk may have after the next boot: `sda`. */
  readonly name: string;
  readonly devicePath: string;
  readonly device: DeviceNumber;
  /** 0: there is no medium in the drive. */
  readonly sizeBytes: bigint;
  readonly bus: Bus;
  readonly isRotational: boolean;
  readonly isRemovable: boolean;
  readonly isReadonly: boolean;
  /** Zones can only be written from their beginning to their end. */
  readonly isZoned: boolean;
  readonly model: string | undefined;
  readonly serial: string | undefined;
  /** The permanent name, in the kernel's words; undefined: none. */
  readonly identity: string | undefined;
  readonly holders: readonly string[];
  readonly partitions: readonly Partition[];
}

/**
 * Devices in memory, devices built on files or other disks, network devices, and media that are not for keeping data.
 */
const noDisks = /^(loop|ram|zram|dm-|md|bcache|nbd|rbd|drbd|zd|sr|fd|mtdblock|ublkb)[0-9]/;

const linkDirectory = '/dev/disk/by-id';

/** Answers if a block device of this name is a disk, and not built on something else. */
function isDiskName(name: string): boolean {
  return !noDisks.test(name);
}

/** The number of disks now. Takes no worker thread: it is needed before the number of threads is decided. */
export function countDisks(): number {
  return readdirSync('/sys/block').filter(isDiskName).length;
}

/**
 * A text of the names of the disks and of the links to them, which changes if a disk comes or goes. Nothing else is
 * read.
 */
export async function diskNames(queue: DiskQueue): Promise<string> {
  const names = (await queue.run(() => readdir('/sys/block'))).filter(isDiskName);
  return [...names, ...(await namesIn(queue, linkDirectory))].join(' ');
}

/** The whole disks that this kernel has, by name. */
export async function listDisks(queue: DiskQueue): Promise<Disk[]> {
  const names = (await queue.run(() => readdir('/sys/block'))).filter(isDiskName);
  const disks = await Promise.all(names.map((name) => readDisk(queue, name)));
  return disks
    .filter((disk) => disk !== undefined)
    .sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
}

/** The names of the other disks with the same permanent name: two ways to one disk, or two disks that lie. */
export function namesakesOf({ identity, name }: Pick<Disk, 'identity' | 'name'>, disks: readonly Disk[]): string[] {
  if (identity === undefined) return [];
  return disks.filter((other) => other.identity === identity && other.name !== name).map((other) => other.name);
}

/** @returns undefined if it is gone, or is one of several paths to a disk, which no one opens (`hidden`) */
async function readDisk(queue: DiskQueue, name: string): Promise<Disk | undefined> {
  const directory = `/sys/block/${name}`;
  const read = (attribute: string) => readSysfs(queue, `${directory}/${attribute}`);
  const device = parseDeviceNumber(await read('dev'));
  if (device === undefined || (await read('hidden')) === '1') return undefined;
  const place = await queue.run(() => realpath(directory)).catch(nothingIfGone);
  return {
    name,
    devicePath: pathOf(name),
    device,
    sizeBytes: BigInt((await read('size')) ?? 0) * 512n,
    bus: busOf(place ?? '', name),
    isRotational: (await read('queue/rotational')) === '1',
    isRemovable: (await read('removable')) === '1',
    isReadonly: (await read('ro')) === '1',
    isZoned: !['none', undefined].includes(await read('queue/zoned')),
    model: await read('device/model'),
    serial: (await read('serial')) ?? (await read('device/serial')) ?? (await readPage80(queue, directory)),
    identity: await permanentNameOf(queue, device),
    holders: await namesIn(queue, `${directory}/holders`),
    partitions: await readPartitions(queue, directory),
  };
}

/** A block device in sysfs: a whole disk, or a part of one. */
export interface DiskPlace {
  readonly disk: Disk;
  /** undefined: the whole disk. */
  readonly part: DiskPart | undefined;
  /** Number that identifies this disk until the next boot; undefined: the kernel has none. */
  readonly sequence: bigint | undefined;
}

export interface DiskPart extends Partition {
  /** Identity within the disk: its number, and its start. */
  readonly label: string;
  readonly sizeBytes: bigint;
}

/** @returns undefined if there is no such device, or it is neither a disk nor a part of one */
export async function findDisk(queue: DiskQueue, device: DeviceNumber): Promise<DiskPlace | undefined> {
  const found = await findBlockDevice(queue, device);
  return found !== undefined && isDiskName(found.disk.name) ? found : undefined;
}

/** The same for any block device. */
export async function findBlockDevice(
  queue: DiskQueue,
  { major, minor }: DeviceNumber,
): Promise<DiskPlace | undefined> {
  const directory = `/sys/dev/block/${major}:${minor}`;
  const place = await queue.run(() => realpath(directory)).catch(nothingIfGone);
  if (place === undefined) return undefined;
  const number = await readSysfs(queue, `${place}/partition`);
  const whole = number === undefined ? place : dirname(place);
  const disk = await readDisk(queue, basename(whole));
  if (disk === undefined) return undefined;
  const sequence = await readSysfs(queue, `${whole}/diskseq`);
  const found = { disk, sequence: sequence === undefined ? undefined : BigInt(sequence) };
  if (number === undefined) return { ...found, part: undefined };
  const part = disk.partitions.find(({ name }) => name === basename(place));
  if (part === undefined) return undefined;
  const [start, size] = [await readSysfs(queue, `${place}/start`), await readSysfs(queue, `${place}/size`)];
  const label = `partition ${number} from sector ${start}`;
  return { ...found, part: { ...part, label, sizeBytes: BigInt(size ?? 0) * 512n } };
}

/**
 * The names that udev gives whole disks in /dev/disk/by-id, by the kernel's names. They come late, and those of a
 * missing disk may stay: they are for people, not for finding a disk.
 */
export async function linksToDisks(queue: DiskQueue): Promise<ReadonlyMap<string, readonly string[]>> {
  const directory = linkDirectory;
  const links = new Map<string, string[]>();
  for (const link of (await namesIn(queue, directory)).sort()) {
    const target = await queue.run(() => readlink(`${directory}/${link}`)).catch(nothingIfGone);
    if (target === undefined) continue;
    const name = basename(target);
    links.set(name, [...(links.get(name) ?? []), `${directory}/${link}`]);
  }
  return links;
}

async function readPartitions(queue: DiskQueue, directory: string): Promise<Partition[]> {
  const partitions: Partition[] = [];
  for (const name of await namesIn(queue, directory)) {
    if ((await readSysfs(queue, `${directory}/${name}/partition`)) === undefined) continue;
    const device = parseDeviceNumber(await readSysfs(queue, `${directory}/${name}/dev`));
    if (device === undefined) continue;
    partitions.push({ name, device, holders: await namesIn(queue, `${directory}/${name}/holders`) });
  }
  return partitions;
}

/** sysfs has an exclamation mark for a slash (Documentation/filesystems/sysfs.rst). */
function pathOf(name: string): string {
  return `/dev/${name.replaceAll('!', '/')}`;
}

async function namesIn(queue: DiskQueue, directory: string): Promise<string[]> {
  return (await queue.run(() => readdir(directory)).catch(nothingIfGone)) ?? [];
}
