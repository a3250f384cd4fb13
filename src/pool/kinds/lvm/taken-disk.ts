import { constants } from 'node:fs';
import { dropCache, limitsOfDevice } from '../../../kernel/block/block.ts';
import { type DiskIdentity, isSameDisk } from '../../../kernel/block/disk-identity.ts';
import { zeroOut } from '../../../kernel/block/zeroing.ts';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { readAtMost, syncFile } from '../../../kernel/file/file.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { factsOf, whoHasItOpen } from '../../location/candidate.ts';
import { beginningBytes, isZeros } from '../../location/content.ts';
import { type FoundDisk, requireStill } from '../../location/found-disk.ts';
import { whyNotFree } from '../../location/free-disk.ts';
import { holdAlone, lockWithPatience } from '../../location/hold-alone.ts';
import { type Begun, isBegun, labelEndBytes, newPvUuid } from './begun-disk.ts';
import type { BegunDisk, BegunGroup } from './group-note.ts';

/** A disk that is blank, or holds what we have begun; nobody else has it until it is let go. */
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
}

/**
 * Takes a disk that may become a physical volume. Writes nothing.
 * @param noted what was begun, and whether the group may have volumes by now @throws FailedPrecondition if it holds anything else, or somebody has it
 */
export async function holdDisk(
  place: Place,
  found: FoundDisk,
  noted: (BegunGroup & Pick<Begun, 'mayHaveVolumes'>) | undefined,
): Promise<HeldDisk> {
  const { queue } = place;
  // In words that say who has it; what counts is asked again below.
  refuse(place, found, whyNotFree(await factsOf(queue, found, undefined)));
  const device = await holdAlone(place, found);
  let pin: Descriptor | undefined;
  try {
    await requireStill(queue, found, device);
    // What memory has of it may be older than what others have written, past this kernel.
    await dropCache(queue, device);
    const { sectorBytes, sizeBytes } = limitsOfDevice(device);
    const disk = { name: found.name ?? '', sizeBytes };
    const before = noted?.disks.find((each) => isSameDisk(each.disk, disk));
    const isOurs =
      before !== undefined &&
      noted !== undefined &&
      (await holdsOnlyOurs(queue, device, sizeBytes, { ...noted, ...before }));
    const facts = await factsOf(queue, found, isOurs ? undefined : device);
    refuse(place, found, [...whyNotFree(facts), ...(await whoHasItOpen(found))]);
    const pinned = await openFile(queue, found.devicePath, constants.O_RDONLY | constants.O_NONBLOCK);
    pin = pinned;
    await requireStill(queue, found, pinned);
    return {
      ...{ found, sectorBytes },
      begun: before ?? { disk, pvUuid: newPvUuid() },
      async clear() {
        if (isOurs) await clearBegun(queue, found, device);
      },
      async yieldToLvm() {
        await device[Symbol.asyncDispose]();
        if (!(await lockWithPatience(queue, pinned))) refuse(place, found, ['it is in use (see lsblk)']);
        await requireStill(queue, found, pinned);
        await dropCache(queue, pinned);
        if (!isZeros(await readFront(queue, pinned))) refuse(place, found, ['somebody has written to it just now']);
      },
      async [Symbol.asyncDispose]() {
        await device[Symbol.asyncDispose]();
        await pinned[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await pin?.[Symbol.asyncDispose]();
    await device[Symbol.asyncDispose]();
    throw error;
  }
}

/** What says that it is ours goes last: a power cut leaves no text without it. */
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

function readFront(queue: DiskQueue, device: Descriptor): Promise<Buffer> {
  return readAtMost(queue, device, { lengthBytes: beginningBytes, offsetBytes: 0 });
}

/** As the kernel has it in memory: no disk is asked. */
export function identityOf({ name, place }: FoundDisk): DiskIdentity {
  return { name: name ?? '', sizeBytes: place.part?.sizeBytes ?? place.disk.sizeBytes };
}

async function holdsOnlyOurs(queue: DiskQueue, device: Descriptor, sizeBytes: bigint, begun: Begun): Promise<boolean> {
  const tailAt = sizeBytes > BigInt(beginningBytes) ? sizeBytes - BigInt(beginningBytes) : 0n;
  const front = await readFront(queue, device);
  const tail = await readAtMost(queue, device, { lengthBytes: beginningBytes, offsetBytes: Number(tailAt) });
  return isBegun(front, tail, begun);
}

function refuse({ poolName }: Place, { path }: FoundDisk, reasons: readonly string[]): void {
  if (reasons.length === 0) return;
  throw new FailedPrecondition(
    `pool ${poolName}: ${path} cannot be taken: ${reasons.join('; ')}. Only a blank disk that nobody uses is. Nothing was changed (docs/disks.md).`,
  );
}
