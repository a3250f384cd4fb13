import { isHeldExclusively } from '../../../kernel/block/block.ts';
import type { Disk } from '../../../kernel/block/disks.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { whyUnseen } from '../disk/candidate.ts';
import { readContentOf, type Users, usersOf } from '../disk/disk-survey.ts';
import { type DiskFacts, whyNotFree } from '../disk/free-disk.ts';

/** The flaws of a disk that matches, besides its content. */
export type Against = Pick<DiskFacts, 'owners' | 'namesakes'>;

export interface Survey {
  readonly facts: DiskFacts;
  /** No user of it is seen. */
  readonly isIdle: boolean;
  /** Reasons why it is not free; empty: it is. */
  readonly reasons: readonly string[];
}

/** Reads both ends of a disk that matches, and changes nothing. */
export async function survey(
  queue: DiskQueue,
  disk: Disk,
  users: Users,
  { namesakes, owners }: Against,
): Promise<Survey> {
  const used = usersOf(disk, users);
  const isUsed = used.holders.length + used.mountedAt.length + used.swaps.length + owners.length > 0;
  const facts = {
    ...{ disk, ...used, owners, namesakes },
    isHeld: !isUsed && disk.sizeBytes > 0n && (await isHeldExclusively(queue, disk.devicePath)),
    content: await readContentOf(queue, disk.devicePath),
  };
  const reasons = whyNotFree(facts);
  const unseen = reasons.length === 0 ? await whyUnseen(queue) : undefined;
  return {
    facts,
    isIdle: !isUsed && !facts.isHeld,
    reasons: unseen === undefined ? reasons : [...reasons, unseen],
  };
}
