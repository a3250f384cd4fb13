import { type DiskIdentity, isSameDisk } from '../../../../kernel/block/disk-identity.ts';
import { zeroOut } from '../../../../kernel/block/zeroing.ts';
import type { Descriptor } from '../../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { readAtMost, syncFile } from '../../../../kernel/file/file.ts';
import { beginningBytes, readBeginning } from '../../../location/content.ts';
import { type FoundDisk, locateDevice, requireStill } from '../../../location/disk/found-disk.ts';
import { takeDisk } from '../../../location/disk/take-disk.ts';
import type { PoolLog } from '../../../log.ts';
import { type Begun, isBegun, labelEndBytes, newPvUuid } from './begun-disk.ts';
import type { BegunDisk, BegunGroup } from './group-note.ts';

/** A disk that is blank, or holds what we have begun; it is held exclusively until it is let go. */
export interface HeldDisk extends AsyncDisposable {
  readonly found: FoundDisk;
  readonly begun: BegunDisk;
  readonly sectorBytes: number;
  /** Makes it as blank as it was, if we had begun to write to it. */
  clear(): Promise<void>;
  /**
   * Lets LVM have it, which wants it exclusively for itself. Until it is let go no other disk can have its number, and udev and
   * other drivers leave it alone.
   */
  yieldToLvm(): Promise<void>;
}

interface Place {
  readonly queue: DiskQueue;
  readonly poolName: string;
  readonly log?: PoolLog | undefined;
  /** The configuration names the disk; otherwise a match has found it. */
  readonly isNamed: boolean;
}

/**
 * Takes a disk that may become a physical volume. Writes nothing.
 * @param noted the start of a driver, and whether the group may have volumes by now @throws FailedPrecondition if it holds anything else, or is in use
 */
export async function holdDisk(
  place: Place,
  found: FoundDisk,
  noted: (BegunGroup & Pick<Begun, 'mayHaveVolumes'>) | undefined,
): Promise<HeldDisk> {
  const { isNamed, log, poolName, queue } = place;
  const taken = await takeDisk({
    ...{ queue, poolName, log, isNamed },
    async locate() {
      // The same one, with what others have made of it since it was found.
      await requireStill(queue, found, undefined);
      return locateDevice(queue, found.path, found.device);
    },
    async findOwn({ device, limits: { sizeBytes } }) {
      const disk = { name: found.name ?? '', sizeBytes };
      const before = noted?.disks.find((each) => isSameDisk(each.disk, disk));
      if (before === undefined || noted === undefined) return undefined;
      return (await holdsOnlyOurs(queue, device, sizeBytes, { ...noted, ...before })) ? before : undefined;
    },
  });
  const { device, limits, own } = taken;
  const disk = { name: found.name ?? '', sizeBytes: limits.sizeBytes };
  return {
    ...{ found, sectorBytes: limits.sectorBytes },
    begun: own ?? noted?.disks.find((each) => isSameDisk(each.disk, disk)) ?? { disk, pvUuid: newPvUuid() },
    async clear() {
      if (own !== undefined) await clearBegun(queue, found, device);
    },
    yieldToLvm: () => taken.yieldToProgram(),
    [Symbol.asyncDispose]: () => taken[Symbol.asyncDispose](),
  };
}

/** The part that says that it is ours goes last: a power cut leaves no text without it. */
async function clearBegun(queue: DiskQueue, found: FoundDisk, device: Descriptor): Promise<void> {
  await requireStill(queue, found, device);
  for (const [startBytes, endBytes] of [
    [labelEndBytes, beginningBytes],
    [0, labelEndBytes],
  ] as const) {
    await zeroOut(queue, device, { offsetBytes: BigInt(startBytes), lengthBytes: BigInt(endBytes - startBytes) });
    await syncFile(queue, device);
  }
}

/** By the kernel's memory: no disk is asked. */
export function identityOf({ name, place }: FoundDisk): DiskIdentity {
  return { name: name ?? '', sizeBytes: place.part?.sizeBytes ?? place.disk.sizeBytes };
}

async function holdsOnlyOurs(queue: DiskQueue, device: Descriptor, sizeBytes: bigint, begun: Begun): Promise<boolean> {
  const tailAt = sizeBytes > BigInt(beginningBytes) ? sizeBytes - BigInt(beginningBytes) : 0n;
  const front = await readBeginning(queue, device);
  const tail = await readAtMost(queue, device, { lengthBytes: beginningBytes, offsetBytes: Number(tailAt) });
  return isBegun(front, tail, begun);
}
