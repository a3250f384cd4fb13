import { randomUUID } from 'node:crypto';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { format } from '../../command/mkfs.ts';
import { probeContent } from '../../kernel/block/blkid.ts';
import { limitsOfDevice, openDeviceAlone, refusesWrites } from '../../kernel/block/block.ts';
import { identifyDisk, isSameDisk } from '../../kernel/block/disk-identity.ts';
import { type Descriptor, openReadOnly } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import type { DeviceNumber } from '../../kernel/device.ts';
import { readAtMost } from '../../kernel/file/file.ts';
import { FailedPrecondition, Unavailable } from '../../volume/errors.ts';
import { formatBytes, smaller } from '../../volume/size.ts';
import { step } from '../../volume/step.ts';
import type { PoolLog } from '../log.ts';
import { refuseKnown } from '../records/pool-file.ts';
import { beginningBytes, isFreshLog, isOwnFormat, judgeLocation, logPlace, readBeginning } from './content.ts';
import { locateDevice, swapped } from './disk/found-disk.ts';
import { inUse } from './disk/hold-alone.ts';
import { takeDisk } from './disk/take-disk.ts';
import { type BegunFormat, FormatMarker } from './format-marker.ts';
import type { PoolDisk } from './match/one-disk.ts';

/** mkfs.xfs makes none that is smaller. */
export const minimumLocationBytes = 300n << 20n;

export interface LocationDisk {
  readonly queue: DiskQueue;
  readonly poolName: string;
  /** The disk that the operator named, or the file that it shows, for messages. */
  readonly source: string;
  readonly devicePath: string;
  readonly device: DeviceNumber;
  /** The driver's own directory for markers. */
  readonly markerDirectory: string;
  /** The caller has the device itself locked. */
  readonly isLocked?: boolean;
  readonly log?: PoolLog | undefined;
  /** The operator has not named the disk: a match has found it. */
  readonly matched?: PoolDisk | undefined;
}

/**
 * Makes XFS on a disk if, and only if, it is blank and free, or holds nothing but what a format that was cut short has left:
 * one that the marker says was of this very disk, and that wrote the bytes there. An XFS stays as it is.
 * @returns whether it was made
 * @throws FailedPrecondition if there is anything else on the disk, or it cannot be formatted
 */
export async function ensureFilesystem(location: LocationDisk): Promise<boolean> {
  await new FormatMarker(location.queue, location.markerDirectory, location.poolName).removeVoid();
  await using device = await openReadOnly(location.queue, location.devicePath);
  refuseReadonly(location, device);
  const { isMarked, isToBeMade, marker } = await examine(location, device);
  if (isToBeMade) {
    refuseSmall(location, device);
    await refuseKnown({ ...location, dataDirectory: dirname(location.markerDirectory) }, location.source);
    await makeFilesystem(location);
    return true;
  }
  if (location.matched?.isKnown === false) throw formattedJustNow(location.source);
  // The marker goes before the first use, so it can be there only if it was put back, e.g. with a backup.
  if (isMarked) await step('open/unmark', () => marker.clear());
  return false;
}

/**
 * The decision that `ensureFilesystem` would make, for a command that only looks: nothing is changed.
 * @throws FailedPrecondition as it would
 */
export async function filesystemIsToBeMade(location: LocationDisk): Promise<boolean> {
  await using device = await openReadOnly(location.queue, location.devicePath);
  // A command that only looks shows a file by a read-only device.
  const isDisk = location.devicePath === location.source;
  if (isDisk) refuseReadonly(location, device);
  const { isToBeMade } = await examine(location, device);
  if (!isToBeMade) return false;
  refuseSmall(location, device);
  await refuseKnown({ ...location, dataDirectory: dirname(location.markerDirectory) }, location.source);
  if (isDisk) await refuseInUse(location);
  return true;
}

function refuseReadonly({ poolName, source }: LocationDisk, device: Descriptor): void {
  if (!refusesWrites(device)) return;
  throw new FailedPrecondition(
    `pool ${poolName}: ${source} is a read-only disk. Make it writable (a switch, or blockdev --setrw), or name another.`,
  );
}

function refuseSmall({ poolName, source }: LocationDisk, device: Descriptor): void {
  const { sizeBytes } = limitsOfDevice(device);
  if (sizeBytes < minimumLocationBytes) throw tooSmall(poolName, source, sizeBytes);
}

interface Examined {
  readonly disk: BegunFormat['disk'];
  readonly marker: FormatMarker;
  /** A format of this very disk was begun. */
  readonly isMarked: boolean;
  readonly isToBeMade: boolean;
}

async function examine(location: LocationDisk, device: Descriptor): Promise<Examined> {
  const { queue, devicePath, markerDirectory, poolName, source } = location;
  const disk = await identifyDisk(queue, device, location.device);
  const marker = new FormatMarker(queue, markerDirectory, poolName);
  const begun = await marker.read();
  const begunUuid = begun !== undefined && isSameDisk(begun.disk, disk) ? begun.uuid : undefined;
  const beginning = await readBeginning(queue, device);
  const verdict = judgeLocation({ content: await probeContent(queue, devicePath), beginning, begunUuid });
  const examined = { disk, marker, isMarked: begunUuid !== undefined };
  switch (verdict.kind) {
    case 'mount':
      return { ...examined, isToBeMade: false };
    case 'foreign':
      throw new FailedPrecondition(
        `pool ${poolName}: ${source} is not blank: it holds ${verdict.what}. Holdfast formats blank disks only. If nothing on it is needed, clear it with wipefs --all ${source}, and both of its ends with zeros (docs/disks.md).`,
      );
    case 'finished':
      return { ...examined, isToBeMade: !(await wasUsed(queue, device, beginning)) };
    case 'format':
      return { ...examined, isToBeMade: true };
  }
}

async function makeFilesystem(location: LocationDisk): Promise<void> {
  const { device, devicePath, isLocked, log, matched, poolName, queue, source } = location;
  const isNamed = matched === undefined;
  const look = async (open: Descriptor) => {
    const found = await examine(location, open);
    // The program that had it until now, e.g. one that formats, may have written to it since the look.
    if (!found.isToBeMade) throw formattedJustNow(source);
    return found;
  };
  let examined: Examined | undefined;
  await using taken = await takeDisk({
    ...{ queue, poolName, log, isLocked, isNamed, needsNoName: isNamed },
    async locate() {
      const found = await locateDevice(queue, source, device);
      if (matched !== undefined && found.name !== matched.identity) throw swapped(found);
      return found;
    },
    async findOwn(held) {
      examined = await look(held.device);
      return examined.isMarked ? examined : undefined;
    },
  });
  if (examined === undefined) throw new Unavailable(`${source} was not looked at.`);
  const { disk, marker } = examined;
  const { sectorBytes, sizeBytes } = taken.limits;
  const uuid = randomUUID();
  await taken.yieldToProgram(async (open) => (await look(open)).isToBeMade);
  // From now on no other disk is taken for this pool.
  await matched?.remember();
  await step('open/mark', () => marker.set({ disk, uuid }));
  try {
    const extraArguments = ['-m', `uuid=${uuid}`];
    await step('open/format', () =>
      queue.watch(() =>
        format({ path: devicePath, fsType: 'xfs', sizeBytes, blockSizeBytes: sectorBytes, extraArguments }),
      ),
    );
  } catch (error) {
    // If that fails too, the marker stays, and is true: the bytes there are of this disk and this UUID.
    await takeBack(queue, devicePath, uuid, marker).catch(() => undefined);
    throw error;
  }
  await step('open/unmark', () => marker.clear());
}

function formattedJustNow(source: string): Unavailable {
  return new Unavailable(`${source} was formatted by another program just now: it is looked at again.`);
}

async function refuseInUse({ devicePath, queue, poolName, source }: LocationDisk): Promise<void> {
  await using alone = await openDeviceAlone(queue, devicePath);
  if (alone === undefined) throw inUse(poolName, source);
}

export function tooSmall(poolName: string, source: string, sizeBytes: bigint): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: ${source} has only ${formatBytes(sizeBytes)}: XFS, and so a pool, needs at least ${formatBytes(minimumLocationBytes)}. Give it more.`,
  );
}

/** Makes the disk blank again, of what a mkfs that failed may have written, and nothing else; then the marker goes. */
async function takeBack(queue: DiskQueue, devicePath: string, uuid: string, marker: FormatMarker): Promise<void> {
  await using device = await openDeviceAlone(queue, devicePath);
  // A program that still runs, as it cannot be killed while its disk hangs.
  if (device === undefined) return;
  const beginning = await readBeginning(queue, device);
  if (!isOwnFormat(await probeContent(queue, devicePath), beginning, uuid)) return;
  await step('open/unmark', async () => {
    await queue.run(async () => {
      await using file = await open(devicePath, 'r+');
      await file.write(Buffer.alloc(beginning.length), 0, beginning.length, 0);
      await file.sync();
    });
    await marker.clear();
  });
}

/** True if the filesystem has been mounted since it was made, by its log. */
async function wasUsed(queue: DiskQueue, device: Descriptor, beginning: Buffer): Promise<boolean> {
  const place = logPlace(beginning);
  if (place === undefined) return true;
  const lengthBytes = Number(smaller(place.lengthBytes, BigInt(beginningBytes)));
  return !isFreshLog(await readAtMost(queue, device, { lengthBytes, offsetBytes: Number(place.offsetBytes) }));
}
