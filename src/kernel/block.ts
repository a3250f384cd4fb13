import { type Descriptor, type Openable, openReadOnly } from './descriptor.ts';
import { type IoctlRequest, ioctlNow } from './ioctl.ts';
import type { Lane } from './lane.ts';

const BLKGETSIZE64: IoctlRequest = { name: 'BLKGETSIZE64', number: 0x80081272 };
const BLKROSET: IoctlRequest = { name: 'BLKROSET', number: 0x125d };
const BLKROGET: IoctlRequest = { name: 'BLKROGET', number: 0x125e };

/** How large a block device is. */
export async function deviceSizeBytes(lane: Lane, device: Openable): Promise<bigint> {
  await using descriptor = await openReadOnly(lane, device);
  return sizeOfDevice(descriptor);
}

/** The same for a device that is open: a number that the kernel has in memory. */
export function sizeOfDevice(device: Descriptor): bigint {
  const size = Buffer.alloc(8);
  ioctlNow(device, BLKGETSIZE64, size);
  return size.readBigUInt64LE();
}

/** Whether a device that is open refuses writes: a mark that the kernel has in memory. */
export function refusesWrites(device: Descriptor): boolean {
  const flag = Buffer.alloc(4);
  ioctlNow(device, BLKROGET, flag);
  return flag.readInt32LE() !== 0;
}

/**
 * Makes a device refuse writes, or take them, from everybody who has it open and will have it. The mark belongs to the
 * device's number: it outlives what is attached there.
 */
export function setRefusesWrites(device: Descriptor, refuses: boolean): void {
  const flag = Buffer.alloc(4);
  flag.writeInt32LE(refuses ? 1 : 0);
  ioctlNow(device, BLKROSET, flag);
}
