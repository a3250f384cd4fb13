import { readdir, readFile, readlink } from 'node:fs/promises';
import { basename } from 'node:path';
import type { DiskQueue } from '../call/disk-queue.ts';
import { isErrno } from '../call/errno.ts';
import type { DeviceNumber } from './device.ts';
import { nameInSysfs } from './disk-identity.ts';

/*
 * The disks of this node, as sysfs tells of them: it lies in memory, and no disk is asked.
 */

/** A disk, whole: no partition. */
export interface Disk {
  /** What the kernel calls it now; after a start another one may have this name. */
  readonly name: string;
  readonly devicePath: string;
  readonly device: DeviceNumber;
  readonly sizeBytes: bigint;
  readonly sectorBytes: number;
  /** Never the same for two disks since the machine started, nor for one that was pulled and put back; '' before Linux 5.15. */
  readonly sequence: string;
  /** What the kernel or its firmware says that it is, by names that stay: a WWID, a UUID, a serial number. */
  readonly identities: readonly string[];
  readonly model: string | undefined;
  /** How it is connected: nvme, scsi, virtio, mmc, loop, dm, md, or what the kernel calls it. */
  readonly bus: string;
  readonly isRotational: boolean;
  readonly isRemovable: boolean;
  readonly isReadonly: boolean;
  readonly isZoned: boolean;
  /** A path to a disk that is shown as another one (NVMe multipath). */
  readonly isHidden: boolean;
  /** Names of what the kernel has made of it: mappings, RAIDs. */
  readonly holders: readonly string[];
  /** Names of its partitions that the kernel shows. */
  readonly partitions: readonly string[];
  /** Of a loop device: its file. */
  readonly backingFile: string | undefined;
}

/** What is no disk, although it is a block device: floppies, optical drives, memory, network blocks that are not there. */
const neverDisks = /^(fd|sr|ram|zram|mtdblock|ubiblock)/;

const sysfsSectorBytes = 512n;

/** Those of size 0 are left out, drives without a medium and loop devices without a file among them. */
export async function listDisks(queue: DiskQueue): Promise<Disk[]> {
  const names = await queue.run(() => readdir('/sys/block'));
  const disks = await Promise.all(names.filter((name) => !neverDisks.test(name)).map((name) => readDisk(queue, name)));
  return disks.flatMap((disk) => disk ?? []).filter(({ sizeBytes }) => sizeBytes > 0n);
}

/** undefined: it is gone. */
export async function readDisk(queue: DiskQueue, name: string): Promise<Disk | undefined> {
  const directory = `/sys/block/${name}`;
  const read = (attribute: string) => readAttribute(queue, `${directory}/${attribute}`);
  const [dev, size] = [await read('dev'), await read('size')];
  if (dev === undefined || size === undefined) return undefined;
  const [major = '', minor = ''] = dev.split(':');
  const entries = await list(queue, directory);
  const identity = await nameInSysfs(queue, directory);
  const others = await Promise.all(identityAttributes.map(read));
  const serial = await readScsiSerial(queue, directory);
  return {
    name,
    devicePath: `/dev/${name.replaceAll('!', '/')}`,
    device: { major: Number(major), minor: Number(minor) },
    sizeBytes: BigInt(size) * sysfsSectorBytes,
    sectorBytes: Number((await read('queue/logical_block_size')) ?? 512),
    sequence: (await read('diskseq')) ?? '',
    identities: [...new Set([identity?.replace(/^\S+ /, ''), ...others, serial].flatMap((each) => each ?? []))],
    model: await read('device/model'),
    bus: await busOf(queue, name),
    isRotational: (await read('queue/rotational')) === '1',
    isRemovable: (await read('removable')) === '1',
    isReadonly: (await read('ro')) === '1',
    isZoned: !['none', undefined].includes(await read('queue/zoned')),
    isHidden: (await read('hidden')) === '1',
    holders: await list(queue, `${directory}/holders`),
    partitions: entries.filter((entry) => entry.startsWith(name)),
    backingFile: await read('loop/backing_file'),
  };
}

const identityAttributes = ['wwid', 'uuid', 'nguid', 'device/wwid', 'serial', 'device/serial', 'device/cid', 'dm/name'];

/** The page of a SCSI disk that has its serial number (SPC, 7.7.17): a header of four bytes, then text. */
async function readScsiSerial(queue: DiskQueue, directory: string): Promise<string | undefined> {
  const page = await readAttribute(queue, `${directory}/device/vpd_pg80`);
  const serial = page?.slice(scsiHeaderBytes).trim();
  return serial === '' ? undefined : serial;
}

const scsiHeaderBytes = 4;

async function busOf(queue: DiskQueue, name: string): Promise<string> {
  const [, family = name] = /^(nvme|loop|dm-|md|mmcblk|vd|sd|xvd|dasd|nbd|rbd|drbd)/.exec(name) ?? [];
  const known: Readonly<Record<string, string>> = { 'dm-': 'dm', mmcblk: 'mmc', vd: 'virtio', sd: 'scsi', xvd: 'xen' };
  const kernelWord = await linkName(queue, `/sys/block/${name}/device/subsystem`);
  return kernelWord ?? known[family] ?? family;
}

async function linkName(queue: DiskQueue, path: string): Promise<string | undefined> {
  try {
    return basename(await queue.run(() => readlink(path)));
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR', 'EINVAL', 'ENODEV')) return undefined;
    throw error;
  }
}

async function list(queue: DiskQueue, directory: string): Promise<string[]> {
  try {
    return await queue.run(() => readdir(directory));
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENODEV')) return [];
    throw error;
  }
}

async function readAttribute(queue: DiskQueue, path: string): Promise<string | undefined> {
  try {
    const text = (await queue.run(() => readFile(path, 'latin1'))).trim();
    return text === '' ? undefined : text;
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR', 'ENXIO', 'EINVAL', 'EIO', 'ENODEV')) return undefined;
    throw error;
  }
}
