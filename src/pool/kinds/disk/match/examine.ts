import { isHeldExclusively } from '../../../../kernel/block/block.ts';
import { type DiskIdentity, isSameDisk } from '../../../../kernel/block/disk-identity.ts';
import type { Disk } from '../../../../kernel/block/disks.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { whyUnseen } from '../../../location/candidate.ts';
import { readContentOf, type Users, usersOf } from '../../../location/disk-survey.ts';
import { whyNotFree } from '../../../location/free-disk.ts';
import { poolIdOn } from '../pool-id.ts';

/** What a disk that a section matches turns out to be. */
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
  const used = usersOf(disk, await users());
  const isUsed = used.holders.length + used.mountedAt.length + used.swaps.length > 0;
  const facts = {
    ...{ disk, ...used, owners: [], namesakes: [] },
    isHeld: !isUsed && disk.sizeBytes > 0n && (await isHeldExclusively(queue, disk.devicePath)),
    content: await readContentOf(queue, disk.devicePath),
  };
  const reasons = whyNotFree(facts);
  const unseen = reasons.length === 0 ? await whyUnseen(queue) : undefined;
  if (unseen !== undefined) reasons.push(unseen);
  return reasons.length === 0 ? { kind: 'free' } : { kind: 'not-free', reason: reasons.join('; ') };
}
