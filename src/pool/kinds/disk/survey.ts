import { constants } from 'node:fs';
import { type Content, probeContent } from '../../../kernel/block/blkid.ts';
import { openDeviceAlone } from '../../../kernel/block/block.ts';
import { type Disk, listDisks } from '../../../kernel/block/disks.ts';
import type { Descriptor } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { isErrno } from '../../../kernel/call/errno.ts';
import { explain } from '../../../kernel/call/explain.ts';
import { HoldfastError } from '../../../volume/errors.ts';
import { withTimeout } from '../../../volume/with-timeout.ts';
import { refusalByContent, refusalBySight } from './candidate.ts';
import type { FoundLabel } from './label.ts';
import { type DiskMatch, mismatchOf } from './match.ts';
import { openDisk, readTable } from './own-disk.ts';

/** What there is to know of one disk of the node. */
export type SurveyedDisk = { readonly disk: Disk } & (
  | {
      readonly kind: 'ours';
      readonly diskId: string;
      readonly sizeBytes: bigint;
      readonly label: FoundLabel | undefined;
    }
  /** It may be taken, as far as its pool wants it. */
  | { readonly kind: 'blank' }
  /** @property isPassing it could not be looked at now: the next look may tell more */
  | { readonly kind: 'refused'; readonly reason: string; readonly isPassing?: true }
);

/** A disk that does not answer holds nobody up for longer. */
const patienceMs = 15_000;

/**
 * Looks at one disk, and writes nothing.
 * @param queue its own: it may hang
 * @param isWanted whether anybody would take it: else nobody is kept away from it for the moment of the look
 */
export async function surveyDisk(queue: DiskQueue, disk: Disk, isWanted = true): Promise<SurveyedDisk> {
  const refused = (reason: string): SurveyedDisk => ({ disk, kind: 'refused', reason });
  const sight = refusalBySight(disk);
  if (sight !== undefined) return refused(sight);
  const passing = (reason: string): SurveyedDisk => ({ disk, kind: 'refused', reason, isPassing: true });
  try {
    const answer = await withTimeout(patienceMs, examine(queue, disk, isWanted));
    return answer === 'late' ? passing('it does not answer') : answer;
  } catch (error) {
    if (error instanceof HoldfastError) return passing(error.message);
    if (isErrno(error, 'ENOENT', 'ENXIO', 'ENODEV', 'ENOMEDIUM')) return passing('it is gone');
    return passing(`it cannot be read (${explain(error)})`);
  }
}

async function examine(queue: DiskQueue, disk: Disk, isWanted: boolean): Promise<SurveyedDisk> {
  await using device = await openDisk(queue, disk);
  const read = await readTable(queue, device, disk);
  if ('label' in read) {
    const { diskId, sizeBytes } = read.table;
    return { disk, kind: 'ours', diskId, sizeBytes, label: read.label };
  }
  const { remnant: label, table } = read;
  const content: Content = await probeContent(queue, disk.devicePath);
  const examined = { content, label, table };
  // Of what holds anything, or is nobody's to take, nobody need be kept away.
  const needsToBeAlone = isWanted && refusalByContent(disk, { ...examined, isAlone: true }) === undefined;
  const isAlone = !needsToBeAlone || (await isFree(queue, disk));
  const reason = refusalByContent(disk, { ...examined, isAlone });
  return reason === undefined ? { disk, kind: 'blank' } : { disk, kind: 'refused', reason };
}

/** Opened for reading: at the end of a write udev would look at it anew. */
async function isFree(queue: DiskQueue, { devicePath }: Disk): Promise<boolean> {
  await using alone = await openDeviceAlone(queue, devicePath, constants.O_RDONLY);
  return alone !== undefined;
}

/**
 * What a disk is that is open for us alone: what was seen of it before may be over.
 * @returns undefined if it is not blank; else how far its last label had counted
 */
export async function blankGeneration(queue: DiskQueue, device: Descriptor, disk: Disk): Promise<bigint | undefined> {
  const read = await readTable(queue, device, disk);
  if ('label' in read || refusalBySight(disk) !== undefined) return undefined;
  const { remnant: label, table } = read;
  const content = await probeContent(queue, disk.devicePath);
  const isBlank = refusalByContent(disk, { content, label, table, isAlone: true }) === undefined;
  return isBlank && label.kind === 'free' ? label.generation : undefined;
}

/**
 * Those that a pool has to look at: those that it wants, and all others that may have its label. What is made of something
 * else (files, mappings) is left alone unless it is wanted: to look at a loop device can keep it from going.
 */
export async function disksFor(queue: DiskQueue, match: DiskMatch): Promise<Disk[]> {
  const disks = await listDisks(queue);
  return disks.filter((disk) => mismatchOf(disk, match) === undefined || !isMadeOfOthers(disk));
}

export function isMadeOfOthers({ bus }: Pick<Disk, 'bus'>): boolean {
  return ['loop', 'dm', 'md'].includes(bus);
}
