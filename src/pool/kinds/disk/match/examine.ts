import { constants } from 'node:fs';
import { limitsOfDevice } from '../../../../kernel/block/block.ts';
import { type DiskIdentity, isSameDisk } from '../../../../kernel/block/disk-identity.ts';
import type { Disk } from '../../../../kernel/block/disks.ts';
import { openFile } from '../../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { readWhatCan } from '../../../../kernel/file/file.ts';
import type { Users } from '../../../location/disk/disk-survey.ts';
import { survey } from '../../../location/match/survey.ts';
import { readGpt } from '../label/gpt.ts';
import { entriesBytes } from '../label/layout.ts';

/** The result for a disk that a section matches. */
export type Examined =
  /** It is a pool's already, of this node or of another one. */
  | { readonly kind: 'labelled'; readonly poolId: string }
  /** Its labelling was cut short. */
  | { readonly kind: 'begun' }
  | { readonly kind: 'free' }
  | { readonly kind: 'not-free'; readonly reason: string };

/** Reads both ends of the disk, and changes nothing. @param begun the labelling that the pool's marker tells of */
export async function examine(
  queue: DiskQueue,
  disk: Disk,
  users: () => Promise<Users>,
  begun: DiskIdentity | undefined,
): Promise<Examined> {
  const poolId = disk.sizeBytes === 0n ? undefined : await poolIdOn(queue, disk);
  if (poolId !== undefined) return { kind: 'labelled', poolId };
  const name = disk.identity ?? '';
  if (begun !== undefined && isSameDisk(begun, { name, sizeBytes: disk.sizeBytes })) return { kind: 'begun' };
  const { reasons } = await survey(queue, disk, await users(), { owners: [], namesakes: [] });
  return reasons.length === 0 ? { kind: 'free' } : { kind: 'not-free', reason: reasons.join('; ') };
}

/** The pool that the beginning of a disk names; undefined: none. */
async function poolIdOn(queue: DiskQueue, { devicePath }: Disk): Promise<string | undefined> {
  await using device = await openFile(queue, devicePath, constants.O_RDONLY | constants.O_NONBLOCK);
  const { sectorBytes, sizeBytes } = limitsOfDevice(device);
  const table = { lengthBytes: 2 * sectorBytes + Number(entriesBytes), offsetBytes: 0 };
  if (sizeBytes < BigInt(table.lengthBytes)) return undefined;
  const front = await readWhatCan(queue, device, table);
  return readGpt(front.subarray(sectorBytes, 2 * sectorBytes), front.subarray(2 * sectorBytes))?.poolId;
}
