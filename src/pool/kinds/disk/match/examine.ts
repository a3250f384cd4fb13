import { type DiskIdentity, isSameDisk } from '../../../../kernel/block/disk-identity.ts';
import type { Disk } from '../../../../kernel/block/disks.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import type { Users } from '../../../location/disk/disk-survey.ts';
import { survey } from '../../../location/match/survey.ts';
import { poolIdOn } from '../pool-id.ts';

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
