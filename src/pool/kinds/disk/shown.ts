import { constants } from 'node:fs';
import { readlink } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import type { DeviceNumber } from '../../../kernel/block/device.ts';
import { readDisk } from '../../../kernel/block/disks.ts';
import {
  addPartition,
  deletePartition,
  findPartition,
  openBlockNode,
  type Partition,
} from '../../../kernel/block/partition.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { Unavailable } from '../../../volume/errors.ts';
import { step } from '../../../volume/step.ts';
import { dataNumber } from './layout.ts';
import { type OwnDisk, openDisk } from './own-disk.ts';

/*
 * The data of a volume is a partition that the kernel shows while the volume is attached, and only then: nobody looks
 * into what no pod has. A kernel that starts shows them all, and so does a udev that hears of somebody's write to the disk.
 */

/** The partition of a disk that is a volume's, if the kernel shows it as it is to be. */
export async function shownData(own: OwnDisk): Promise<Partition | undefined> {
  const partition = await findPartition(own.queue, own.disk.name, dataNumber);
  const { lengthBytes, startBytes } = own.data;
  return partition?.startBytes === startBytes && partition.lengthBytes === lengthBytes ? partition : undefined;
}

/** Has the kernel show it. What else it shows there, from before the disk was ours, goes. */
export async function showData(own: OwnDisk): Promise<Partition> {
  const before = await shownData(own);
  if (before !== undefined) return before;
  await using device = await own.open();
  await step('attach/device', async () => {
    try {
      await addPartition(own.queue, device, own.data);
    } catch (error) {
      if (!isErrno(error, 'EBUSY')) throw error;
      // The kernel, or udev, was faster; or it shows what was there before.
      if ((await shownData(own)) !== undefined) return;
      await ignoreAbsent(deletePartition(own.queue, device, dataNumber));
      await addPartition(own.queue, device, own.data);
    }
  });
  const shown = await shownData(own);
  if (shown === undefined) throw new Unavailable(`the kernel does not show the partition of ${own.disk.devicePath}.`);
  return shown;
}

/**
 * The node of a partition, open for reading: of this one, and of no other that has its name by now. As long as it is open
 * no other disk gets the name.
 */
export async function openShown({ disk, queue }: OwnDisk, { device, name }: Partition): Promise<Descriptor> {
  const opened = await openBlockNode(queue, nodeOf(name), device, constants.O_RDONLY);
  if (opened === undefined) {
    throw new Unavailable(`${nodeOf(name)} stands for another device than ${device.major}:${device.minor}: remove it.`);
  }
  if ((await readDisk(queue, disk.name))?.sequence === disk.sequence) return opened;
  await opened[Symbol.asyncDispose]();
  throw new Unavailable(`${disk.devicePath} is another disk than a moment ago; try again.`);
}

export function nodeOf(name: string): string {
  return `/dev/${name.replaceAll('!', '/')}`;
}

/** Has the kernel show it no more. @returns false if somebody has it open */
export async function hideData(own: OwnDisk): Promise<boolean> {
  if ((await shownData(own)) === undefined) return true;
  await using device = await openDisk(own.queue, own.disk);
  try {
    await step('detach/device', () => ignoreAbsent(deletePartition(own.queue, device, dataNumber)));
    return true;
  } catch (error) {
    if (isErrno(error, 'EBUSY')) return false;
    throw error;
  }
}

async function ignoreAbsent(work: Promise<void>): Promise<void> {
  await work.catch((error) => {
    if (!isErrno(error, 'ENXIO')) throw error;
  });
}

/** The name of the disk that a partition with our number belongs to; undefined: it is no such thing, or gone. */
export async function diskOfPartition(queue: DiskQueue, device: DeviceNumber): Promise<string | undefined> {
  try {
    const target = await queue.run(() => readlink(`/sys/dev/block/${device.major}:${device.minor}`));
    const [disk, partition] = [basename(dirname(target)), basename(target)];
    return /^(.*[0-9]p|.*[^0-9])2$/.test(partition) && partition.startsWith(disk) ? disk : undefined;
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined;
    throw error;
  }
}
