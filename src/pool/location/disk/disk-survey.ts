import { probeContent } from '../../../kernel/block/blkid.ts';
import { sizeOfDevice } from '../../../kernel/block/block.ts';
import { findMapped } from '../../../kernel/block/device-mapper.ts';
import type { Disk } from '../../../kernel/block/disks.ts';
import { loopBackingPaths } from '../../../kernel/block/loop-sysfs.ts';
import { type Descriptor, openReadOnly } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { explain } from '../../../kernel/call/explain.ts';
import type { DeviceNumber } from '../../../kernel/device.ts';
import { readAtMost } from '../../../kernel/file/file.ts';
import { isNodeOf, type Mount, readMountTable } from '../../../kernel/mount/mount-table.ts';
import { mountsOfDevices, type ShowsDevice } from '../../../kernel/mount/mounts-of-device.ts';
import { mountsElsewhere } from '../../../kernel/process/mounts-elsewhere.ts';
import { swapPaths } from '../../../kernel/process/swaps.ts';
import { larger } from '../../../volume/size.ts';
import { beginningBytes, isZeros } from '../content.ts';
import type { DiskFacts, ReadContent } from './free-disk.ts';

/** The kernel's knowledge of the users of disks. */
export interface Users {
  readonly mounts: readonly Mount[];
  readonly shows: ShowsDevice;
  readonly swaps: readonly string[];
  /** Names of devices of device-mapper, by the kernel's own: `vg0-data` of `dm-0`. */
  readonly mappedNames: ReadonlyMap<string, string>;
  /** The loop devices over each device, by its path: of those the kernel knows no holder. */
  readonly loops: ReadonlyMap<string, readonly string[]>;
}

export async function readUsers(queue: DiskQueue): Promise<Users> {
  const mapped = await findMapped(queue, () => true);
  const mounts = [...(await readMountTable(queue)), ...(await mountsElsewhere())];
  return {
    mounts,
    shows: await mountsOfDevices(queue, mounts),
    swaps: await swapPaths(queue),
    mappedNames: new Map(mapped.map(({ device, name }) => [`dm-${device.minor}`, name])),
    loops: await loopsByBacking(queue),
  };
}

/** Reads them when they are first asked for, and once: for that, all mount namespaces of the node are gone through. */
export function usersOnce(queue: DiskQueue): () => Promise<Users> {
  let reading: Promise<Users> | undefined;
  return () => {
    reading ??= readUsers(queue);
    return reading;
  };
}

async function loopsByBacking(queue: DiskQueue): Promise<ReadonlyMap<string, readonly string[]>> {
  const loops = new Map<string, string[]>();
  for (const [number, path] of await loopBackingPaths(queue)) {
    if (path.startsWith('/dev/')) loops.set(path, [...(loops.get(path) ?? []), `loop${number}`]);
  }
  return loops;
}

/** The users of a disk, as far as the kernel knows them without a request to it. */
export function usersOf(
  { device, devicePath, holders, partitions }: Disk,
  { loops, mappedNames, mounts, shows, swaps }: Users,
): Pick<DiskFacts, 'holders' | 'mountedAt' | 'swaps'> {
  const parts: { readonly device: DeviceNumber; readonly devicePath: string }[] = [
    { device, devicePath },
    ...partitions.map((partition) => ({ device: partition.device, devicePath: `/dev/${partition.name}` })),
  ];
  const isOnDisk = (mount: Mount) =>
    parts.some(
      (part) => shows(mount, part.device) !== false || (isDeviceDirectory(mount) && isNodeOf(mount, part.devicePath)),
    );
  const over = parts.flatMap((part) => loops.get(part.devicePath) ?? []);
  const all = [...holders, ...partitions.flatMap((partition) => partition.holders), ...over];
  return {
    mountedAt: [...new Set(mounts.filter(isOnDisk).map(({ target }) => target))],
    swaps: swaps.filter((path) => parts.some((part) => part.devicePath === path)),
    holders: [...new Set(all)].map((name) => {
      const mappedName = mappedNames.get(name);
      return mappedName === undefined ? name : `${name} (${mappedName})`;
    }),
  };
}

/** A device's node is mounted from there; a file elsewhere may have its name by chance. */
function isDeviceDirectory({ fsType }: Mount): boolean {
  return fsType === 'devtmpfs' || fsType === 'tmpfs';
}

/** Looks into a disk. Nothing is written to it, nor is it opened for writing: udev would look at it again after that. */
export async function readContentOf(queue: DiskQueue, devicePath: string): Promise<ReadContent | string> {
  try {
    const found = await probeContent(queue, devicePath);
    await using device = await openReadOnly(queue, devicePath);
    return { found, isZeroAtBothEnds: await isZeroAtBothEnds(queue, device) };
  } catch (error) {
    if (queue.closedFor !== undefined) throw error;
    return explain(error);
  }
}

/** By no more than the beginning and the end, where signatures are. */
async function isZeroAtBothEnds(queue: DiskQueue, device: Descriptor): Promise<boolean> {
  const sizeBytes = sizeOfDevice(device);
  const lastBytes = larger(0n, sizeBytes - BigInt(beginningBytes));
  for (const offsetBytes of [0, Number(lastBytes)]) {
    const part = await readAtMost(queue, device, { lengthBytes: beginningBytes, offsetBytes });
    if (!isZeros(part)) return false;
  }
  return true;
}
