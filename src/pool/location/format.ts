import { randomUUID } from 'node:crypto';
import { open } from 'node:fs/promises';
import { format } from '../../command/mkfs.ts';
import { probeContent } from '../../kernel/block/blkid.ts';
import { limitsOfDevice, openDeviceAlone, refusesWrites } from '../../kernel/block/block.ts';
import type { DeviceNumber } from '../../kernel/block/device.ts';
import { identifyDisk, isSameDisk } from '../../kernel/block/disk-identity.ts';
import { type Descriptor, openReadOnly } from '../../kernel/call/descriptor.ts';
import type { Lane } from '../../kernel/call/disk-queue.ts';
import { readAt } from '../../kernel/file/file.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import { formatBytes, smaller } from '../../volume/size.ts';
import { step } from '../../volume/step.ts';
import { beginningBytes, isFreshLog, isOwnFormat, judgeHome, logPlace } from './content.ts';
import { type BegunFormat, FormatMarker } from './format-marker.ts';

/** mkfs.xfs makes none that is smaller. */
export const minimumHomeBytes = 300n << 20n;

export interface HomeDisk {
  readonly lane: Lane;
  readonly poolName: string;
  /** What the operator named, for messages: the disk, or the file that it shows. */
  readonly source: string;
  readonly devicePath: string;
  readonly device: DeviceNumber;
  /** Of the driver's own. */
  readonly markerDirectory: string;
}

/**
 * Makes XFS on a disk if, and only if, it is blank, or holds nothing but what a format that was cut short has left: one
 * that the marker says was of this very disk, and that wrote what is there. An XFS stays as it is.
 * @throws FailedPrecondition if there is anything else on the disk, or it cannot be formatted
 */
export async function ensureFilesystem(home: HomeDisk): Promise<void> {
  await new FormatMarker(home.lane, home.markerDirectory, home.poolName).removeVoid();
  await using device = await openReadOnly(home.lane, home.devicePath);
  refuseReadonly(home, device);
  let found = await examine(home, device);
  if (found.isToBeMade) {
    refuseSmall(home, device);
    await refuseInUse(home);
    // Whoever had it until now, a program that formats say, may have written to it since we looked.
    found = await examine(home, device);
  }
  if (found.isToBeMade) return await makeFilesystem(home, { device, ...found });
  // The marker goes before the first use, so it can be there only if it was put back with a backup, say.
  const { isMarked, marker } = found;
  if (isMarked) await step('open/unmark', () => marker.clear());
}

/**
 * What `ensureFilesystem` is going to do, for who only looks: nothing is changed.
 * @throws FailedPrecondition as it would
 */
export async function filesystemIsToBeMade(home: HomeDisk): Promise<boolean> {
  await using device = await openReadOnly(home.lane, home.devicePath);
  // A file is shown to who only looks by a device that nobody can write to.
  const isDisk = home.devicePath === home.source;
  if (isDisk) refuseReadonly(home, device);
  const { isToBeMade } = await examine(home, device);
  if (isToBeMade) refuseSmall(home, device);
  if (isToBeMade && isDisk) await refuseInUse(home);
  return isToBeMade;
}

function refuseReadonly({ poolName, source }: HomeDisk, device: Descriptor): void {
  if (!refusesWrites(device)) return;
  throw new FailedPrecondition(
    `pool ${poolName}: ${source} is a read-only disk. Make it writable (a switch, or blockdev --setrw), or name another.`,
  );
}

function refuseSmall({ poolName, source }: HomeDisk, device: Descriptor): void {
  const { sizeBytes } = limitsOfDevice(device);
  if (sizeBytes < minimumHomeBytes) throw tooSmall(poolName, source, sizeBytes);
}

interface Examined {
  readonly disk: BegunFormat['disk'];
  readonly marker: FormatMarker;
  /** A format of this very disk was begun. */
  readonly isMarked: boolean;
  readonly isToBeMade: boolean;
}

async function examine(home: HomeDisk, device: Descriptor): Promise<Examined> {
  const { lane, devicePath, markerDirectory, poolName, source } = home;
  const disk = await identifyDisk(lane, device, home.device);
  const marker = new FormatMarker(lane, markerDirectory, poolName);
  const begun = await marker.read();
  const begunUuid = begun !== undefined && isSameDisk(begun.disk, disk) ? begun.uuid : undefined;
  const beginning = await readBeginning(lane, device);
  const verdict = judgeHome({ content: await probeContent(lane, devicePath), beginning, begunUuid });
  const examined = { disk, marker, isMarked: begunUuid !== undefined };
  switch (verdict.kind) {
    case 'mount':
      return { ...examined, isToBeMade: false };
    case 'foreign':
      throw new FailedPrecondition(
        `pool ${poolName}: ${source} is not blank: it holds ${verdict.what}. Holdfast formats blank disks only. If nothing on it is needed, clear it with: wipefs --all ${source} && dd if=/dev/zero of=${source} bs=1M count=1 conv=notrunc`,
      );
    case 'finished':
      return { ...examined, isToBeMade: !(await wasUsed(lane, device, beginning)) };
    case 'format':
      return { ...examined, isToBeMade: true };
  }
}

async function makeFilesystem(
  home: HomeDisk,
  {
    device,
    disk,
    marker,
  }: { readonly device: Descriptor; readonly disk: BegunFormat['disk']; readonly marker: FormatMarker },
): Promise<void> {
  const { devicePath, lane } = home;
  const { sectorBytes } = limitsOfDevice(device);
  const uuid = randomUUID();
  await step('open/mark', () => marker.set({ disk, uuid }));
  try {
    const extraArguments = ['-m', `uuid=${uuid}`];
    await step('open/format', () =>
      format({ path: devicePath, fsType: 'xfs', blockSizeBytes: sectorBytes, extraArguments }),
    );
  } catch (error) {
    // If that fails too, the marker stays, and says the truth: what is there is of this disk and this UUID.
    await takeBack(lane, devicePath, uuid, marker).catch(() => undefined);
    throw error;
  }
  await step('open/unmark', () => marker.clear());
}

/** What mkfs would refuse, in our words, and before anything is noted. */
async function refuseInUse({ devicePath, lane, poolName, source }: HomeDisk): Promise<void> {
  await using alone = await openDeviceAlone(lane, devicePath);
  if (alone !== undefined) return;
  throw new FailedPrecondition(
    `pool ${poolName}: ${source} is in use: it is mounted elsewhere, part of a volume group or RAID, or being formatted (see lsblk). Name another disk, or end that.`,
  );
}

export function tooSmall(poolName: string, source: string, sizeBytes: bigint): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: ${source} has only ${formatBytes(sizeBytes)}: XFS, and so a pool, needs at least ${formatBytes(minimumHomeBytes)}. Give it more.`,
  );
}

/** Makes the disk blank again, of what a mkfs that failed may have written, and nothing else; then the marker goes. */
async function takeBack(lane: Lane, devicePath: string, uuid: string, marker: FormatMarker): Promise<void> {
  await using device = await openDeviceAlone(lane, devicePath);
  // One that is still at work, as nobody can end it while its disk hangs.
  if (device === undefined) return;
  const beginning = await readBeginning(lane, device);
  if (!isOwnFormat(await probeContent(lane, devicePath), beginning, uuid)) return;
  await step('open/unmark', async () => {
    await lane.run(async () => {
      await using file = await open(devicePath, 'r+');
      await file.write(Buffer.alloc(beginning.length), 0, beginning.length, 0);
      await file.sync();
    });
    await marker.clear();
  });
}

/** Whether the filesystem has been mounted since it was made, by its log. */
async function wasUsed(lane: Lane, device: Descriptor, beginning: Buffer): Promise<boolean> {
  const place = logPlace(beginning);
  if (place === undefined) return true;
  const lengthBytes = Number(smaller(place.lengthBytes, BigInt(beginningBytes)));
  return !isFreshLog(await readAt(lane, device, { lengthBytes, offsetBytes: Number(place.offsetBytes) }));
}

function readBeginning(lane: Lane, device: Descriptor): Promise<Buffer> {
  return readAt(lane, device, { lengthBytes: beginningBytes, offsetBytes: 0 });
}
