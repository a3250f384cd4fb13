import { join } from 'node:path';
import type { Descriptor } from '../call/descriptor.ts';
import type { DiskQueue } from '../call/disk-queue.ts';
import { type DeviceNumber, loopMajor, parseDeviceNumber } from '../device.ts';
import { readSysfs, sysfsNames } from '../file/sysfs.ts';
import { sizeOfDevice } from './block.ts';
import { loopStatus } from './loop.ts';
import { loopNumber } from './loop-sysfs.ts';

/** The identity of a disk. Names such as sdb may stand for another disk after one is pulled, or after a reboot. */
export interface DiskIdentity {
  /** The identity in the kernel's words. */
  readonly name: string;
  readonly sizeBytes: bigint;
}

/** A name that holds only until the next reboot begins with this and with the id of the boot. */
const passingPrefix = 'boot ';

/**
 * Files of sysfs that name a disk permanently, the most reliable first: device-mapper and MD have a UUID, NVMe and SCSI
 * the identifier of the namespace or unit, others a serial number (Documentation/ABI).
 */
const persistentNames = ['dm/uuid', 'md/uuid', 'wwid', 'device/wwid', 'serial', 'device/cid', 'device/serial'] as const;
const page80 = 'vpd_pg80';

/** @param device a block device that is open, and its number */
export async function identifyDisk(queue: DiskQueue, device: Descriptor, number: DeviceNumber): Promise<DiskIdentity> {
  return { name: await nameOf(queue, number), sizeBytes: sizeOfDevice(device) };
}

/** The permanent name of a whole disk; undefined: the kernel has none. @param root of sysfs, for tests */
export function permanentNameOf(
  queue: DiskQueue,
  { major, minor }: DeviceNumber,
  root = '/sys',
): Promise<string | undefined> {
  return nameInSysfs(queue, join(root, `dev/block/${major}:${minor}`));
}

/** A whole device that is a disk, or one of several for it. */
export interface WayToDisk {
  /** `sda`. */
  readonly name: string;
  readonly device: DeviceNumber;
}

/**
 * The whole devices with a permanent name: the ways to one disk, or disks that lie. Single paths below native multipath of
 * NVMe are not among them: they have no number. @param root of sysfs, for tests
 */
export async function devicesNamed(queue: DiskQueue, permanentName: string, root = '/sys'): Promise<WayToDisk[]> {
  const attribute = permanentName.slice(0, permanentName.indexOf(' '));
  const found: WayToDisk[] = [];
  for (const name of sysfsNames(join(root, 'block'))) {
    const directory = join(root, 'block', name);
    const text = attribute === page80 ? readPage80(queue, directory) : readSysfs(queue, join(directory, attribute));
    if (`${attribute} ${await text}` !== permanentName) continue;
    const device = parseDeviceNumber(await readSysfs(queue, join(directory, 'dev')));
    if (device !== undefined) found.push({ name, device });
  }
  return found;
}

async function nameOf(queue: DiskQueue, number: DeviceNumber): Promise<string> {
  const directory = `/sys/dev/block/${number.major}:${number.minor}`;
  const partition = await readSysfs(queue, `${directory}/partition`);
  if (partition === undefined) return (await nameInSysfs(queue, directory)) ?? (await nameOfLoop(queue, number));
  const start = await readSysfs(queue, `${directory}/start`);
  // Not normalised: `..` is relative to the symlink's target.
  const parent = `${directory}/..`;
  const disk = (await nameInSysfs(queue, parent)) ?? (await passingName(queue, parent));
  return `${disk}, partition ${partition} from sector ${start}`;
}

async function nameInSysfs(queue: DiskQueue, directory: string): Promise<string | undefined> {
  for (const attribute of persistentNames) {
    const value = await readSysfs(queue, `${directory}/${attribute}`);
    if (value !== undefined) return `${attribute} ${value}`;
  }
  // A SCSI disk need not have an identifier, and then has a serial number at most.
  const serial = await readPage80(queue, directory);
  return serial === undefined ? undefined : `${page80} ${serial}`;
}

/** Unit Serial Number of SCSI (SPC, VPD page 80h): four bytes of a header, then the text. @param directory of a whole disk */
export async function readPage80(queue: DiskQueue, directory: string): Promise<string | undefined> {
  const page = await readSysfs(queue, `${directory}/device/vpd_pg80`);
  const text = page?.slice(4).replaceAll('\0', '').trim();
  return text === '' ? undefined : text;
}

/** A loop device is identified by its file. */
async function nameOfLoop(queue: DiskQueue, number: DeviceNumber): Promise<string> {
  const loop = number.major === loopMajor ? loopNumber(number) : undefined;
  const status = loop === undefined ? undefined : await loopStatus(queue, loop);
  if (status === undefined) return passingName(queue, `/sys/dev/block/${number.major}:${number.minor}`);
  return `file ${status.backingDevice.major}:${status.backingDevice.minor} ${status.backingInode}`;
}

/** No two disks that this kernel has seen since it started have the same `diskseq`. */
async function passingName(queue: DiskQueue, directory: string): Promise<string> {
  const boot = await readSysfs(queue, '/proc/sys/kernel/random/boot_id');
  const sequence = await readSysfs(queue, `${directory}/diskseq`);
  return `${passingPrefix}${boot ?? 'unknown'} diskseq ${sequence ?? 'unknown'}`;
}

/**
 * Compares two identities as far as the kernel can tell. For a disk without a permanent name, only the size can be
 * compared after a reboot.
 */
export function isSameDisk(a: DiskIdentity, b: DiskIdentity): boolean {
  if (a.sizeBytes !== b.sizeBytes) return false;
  if (a.name === b.name) return true;
  return a.name.startsWith(passingPrefix) && b.name.startsWith(passingPrefix) && bootOf(a) !== bootOf(b);
}

function bootOf({ name }: DiskIdentity): string | undefined {
  return name.slice(passingPrefix.length).split(' ')[0];
}
