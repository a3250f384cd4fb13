import { type Descriptor, type Openable, openReadOnly } from './descriptor.ts';
import { type IoctlRequest, ioctlNow } from './ioctl.ts';
import type { Lane } from './lane.ts';

const BLKGETSIZE64: IoctlRequest = { name: 'BLKGETSIZE64', number: 0x80081272 };

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
