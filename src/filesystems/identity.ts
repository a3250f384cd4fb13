import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { setExt4Uuid, setXfsUuid } from '../command/identity.ts';
import { CommandError } from '../command/run.ts';
import { openFile, openReadOnly } from '../kernel/call/descriptor.ts';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import type { MountParameter } from '../kernel/mount/mount.ts';
import { DataLoss } from '../volume/errors.ts';
import type { FilesystemType } from '../volume/filesystem.ts';
import { mountBriefly, type PrivateImage, withDevice } from './brief-mount.ts';
import { btrfsRenewal, inspectBtrfs } from './btrfs-identity.ts';
import { ext4Renewal } from './ext4-identity.ts';
import { type FindRenewal, inspect, inWholePages, type Renewal, renew, writePieces } from './renewal.ts';
import { xfsRenewal } from './xfs-identity.ts';

/**
 * Gives a cloned filesystem a new UUID: XFS and btrfs refuse to be mounted beside another one with the same, and
 * whatever finds an ext4 by its UUID must not find two. No program is run, but for filesystems of old kinds. The caller
 * syncs the image.
 */
export async function giveNewIdentity(queue: DiskQueue, image: PrivateImage): Promise<void> {
  const text = randomUUID();
  const uuid = { text, bytes: Buffer.from(text.replaceAll('-', ''), 'hex') };
  switch (image.fsType) {
    case 'ext4':
      return identifyExt4(queue, image, uuid);
    case 'btrfs':
      return identifyBtrfs(queue, image, uuid);
    case 'xfs':
      return identifyXfs(queue, image, uuid);
  }
}

interface Uuid {
  readonly text: string;
  readonly bytes: Buffer;
}

const renewals: Readonly<Record<FilesystemType, FindRenewal<string>>> = {
  ext4: ext4Renewal,
  xfs: xfsRenewal,
  btrfs: btrfsRenewal,
};

/** Finds how clones of a filesystem that is not in use get new UUIDs. @returns undefined if it takes more than writes */
export async function renewalOf(queue: DiskQueue, { fsType, path }: PrivateImage): Promise<Renewal | undefined> {
  await using file = await openReadOnly(queue, path);
  return await inspect(queue, file, async (image) => {
    const found = await renewals[fsType](image);
    return typeof found === 'string' ? undefined : inWholePages(image, found);
  });
}

async function identifyBtrfs(queue: DiskQueue, image: PrivateImage, uuid: Uuid): Promise<void> {
  await using file = await openFile(queue, image.path, constants.O_RDWR);
  const { needsReplay, renewal } = await inspect(queue, file, inspectBtrfs);
  await writePieces(queue, file, renewal(uuid.bytes));
  // A freeze and an unmount both end with a commit; a power cut leaves a log. A device that is read-only, as a clone's
  // may be, could not replay it.
  if (needsReplay) await replay(queue, image, []);
}

async function identifyExt4(queue: DiskQueue, image: PrivateImage, uuid: Uuid): Promise<void> {
  const identify = () => renew(queue, image.path, uuid.bytes, ext4Renewal);
  let outcome = await identify();
  if (outcome === 'journal') {
    // Cut after a crash of its node. The inode tables that are not initialised yet stay so.
    await replay(queue, image, [['noinit_itable']]);
    outcome = await patiently(identify, 'journal');
  }
  if (outcome === 'journal') throw notReplayed(image);
  if (outcome === 'program') await queue.watch(() => setExt4Uuid(image.path, uuid.text));
}

async function identifyXfs(queue: DiskQueue, image: PrivateImage, uuid: Uuid): Promise<void> {
  const identify = () => renew(queue, image.path, uuid.bytes, xfsRenewal);
  let outcome = await identify();
  // The second time the record of the unmount may have come to lie across the end of the log.
  for (let time = 0; outcome === 'log' && time < 2; time++) {
    // Cut from a mounted filesystem its log is not empty: mounting replays it, unmounting leaves it empty.
    await replay(queue, image, [['nouuid']]);
    outcome = await patiently(identify, 'log');
  }
  if (outcome === 'log') throw notReplayed(image);
  if (outcome === 'program') await identifyOldXfs(queue, image, uuid);
}

/** Without checksums (crc=0). */
async function identifyOldXfs(queue: DiskQueue, image: PrivateImage, { text }: Uuid): Promise<void> {
  await withDevice(queue, image, async (devicePath) => {
    const give = () => queue.watch(() => setXfsUuid(devicePath, text));
    const identify = () => give().then(() => true, isRefused);
    if (await identify()) return;
    await mountBriefly(queue, 'xfs', devicePath, [['nouuid']]);
    if (!(await patiently(identify, false))) await give();
  });
}

function isRefused(error: unknown): false {
  if (error instanceof CommandError) return false;
  throw error;
}

function replay(queue: DiskQueue, image: PrivateImage, parameters: readonly MountParameter[]): Promise<void> {
  return withDevice(queue, image, (devicePath) => mountBriefly(queue, image.fsType, devicePath, parameters));
}

/**
 * Tries again as long as it gets this answer, for a second. A program that is just being started has our descriptors too,
 * that of a mount as well, until it executes.
 */
async function patiently<T>(work: () => Promise<T>, busy: T): Promise<T> {
  for (const pauseMs of [1, 10, 100, 1000]) {
    const answer = await work();
    if (answer !== busy) return answer;
    await delay(pauseMs);
  }
  return work();
}

function notReplayed({ fsType, path }: PrivateImage): DataLoss {
  return new DataLoss(`the ${fsType} in ${path}, just cloned, keeps a log that cannot be replayed: check its source.`);
}
