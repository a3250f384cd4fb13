import { constants } from 'node:fs';
import { probeContent } from '../../../kernel/block/blkid.ts';
import { dropCache, limitsOfDevice } from '../../../kernel/block/block.ts';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { KernelError } from '../../../kernel/call/errno.ts';
import { readWhatCan, unreadableByte } from '../../../kernel/file/file.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { type FoundDisk, othersWithName } from '../../location/found-disk.ts';
import { type DiskEnds, poolIn } from './label/labelling.ts';
import { type DiskShape, minimumDiskBytes } from './label/layout.ts';

/** What another disk of the same name is. */
export type Twin =
  /** A disk that has nothing to do with the pool: there are disks that all say the same of themselves. */
  | 'other'
  /** It has the pool, and something else beside it. */
  | 'copy'
  /** Nothing tells the two apart: another path to the disk, or a copy to which nobody has written since. */
  | 'same';

interface OpenEnds extends DiskEnds {
  readonly shape: DiskShape;
}

/** Both its ends, as long as nothing of a volume lies there: in front the table and the label, at the end the table's other half. */
const [frontBytes, tailBytes] = [2 << 20, 1 << 20];

/** While somebody uses it, an end may change between two looks. */
const looksAtMost = 3;

/** How it is known that another disk has what this one has. */
type Question = (device: Descriptor, ends: OpenEnds) => Promise<boolean>;

/** Compares what lies on two devices now, past the memory of this kernel. */
export async function judgeTwin(queue: DiskQueue, path: string, twinPath: string, hasPool: Question): Promise<Twin> {
  const open = (each: string) => openFile(queue, each, constants.O_RDONLY | constants.O_NONBLOCK);
  await using twin = await open(twinPath);
  const seen = await readEnds(queue, twin);
  if (seen === undefined || !(await hasPool(twin, seen))) return 'other';
  await using own = await open(path);
  for (let looks = 0; looks < looksAtMost; looks++) {
    await dropCache(queue, own);
    await dropCache(queue, twin);
    const [a, b] = [await readEnds(queue, own), await readEnds(queue, twin)];
    if (a !== undefined && b !== undefined && isSame(a, b)) return 'same';
  }
  return 'copy';
}

function isSame(a: OpenEnds, b: OpenEnds): boolean {
  return a.shape.sizeBytes === b.shape.sizeBytes && a.front.equals(b.front) && a.tail.equals(b.tail);
}

async function readEnds(queue: DiskQueue, device: Descriptor): Promise<OpenEnds | undefined> {
  const shape = limitsOfDevice(device);
  if (shape.sizeBytes < minimumDiskBytes) return undefined;
  const tailAt = Number(shape.sizeBytes) - tailBytes;
  return {
    shape,
    front: await readWhatCan(queue, device, { offsetBytes: 0, lengthBytes: frontBytes }),
    tail: await readWhatCan(queue, device, { offsetBytes: tailAt, lengthBytes: tailBytes }),
  };
}

function isUnread({ front }: DiskEnds): boolean {
  return front.every((byte) => byte === unreadableByte);
}

export interface TwinPlace {
  readonly queue: DiskQueue;
  readonly name: string;
}

/** Of a disk with a label. */
export function hasLabelOf(poolId: string): Question {
  return async (_device, ends) => poolIn(ends, ends.shape) === poolId;
}

/** Which of several disks have the pool. What cannot be read has not, as far as can be known. */
export async function withLabelOf(queue: DiskQueue, paths: readonly string[], poolId: string): Promise<string[]> {
  const having: string[] = [];
  for (const path of paths) {
    const has = async () => {
      await using device = await openFile(queue, path, constants.O_RDONLY | constants.O_NONBLOCK);
      const ends = await readEnds(queue, device);
      return ends !== undefined && (await hasLabelOf(poolId)(device, ends));
    };
    if (await has().catch(ifUnreadable(false))) having.push(path);
  }
  return having;
}

/**
 * The disk that a label was written on first, if it is there and has the label still: the other one is its copy. One that cannot
 * be read counts, for it may be the one that is newer.
 * @param path the disk that has the label @param named those that are called as the label says
 */
export async function originalOf(
  queue: DiskQueue,
  path: string,
  named: readonly string[],
  poolId: string,
): Promise<string | undefined> {
  for (const each of named) {
    const has: Question = async (device, ends) => isUnread(ends) || (await hasLabelOf(poolId)(device, ends));
    const twin = await judgeTwin(queue, path, each, has).catch(ifUnreadable('copy'));
    if (twin !== 'other') return each;
  }
  return undefined;
}

/** Of an adopted disk, which is known by its filesystem. */
export async function hasFilesystemOf(queue: DiskQueue, device: Descriptor): Promise<Question> {
  const uuidOn = async (each: Descriptor) => {
    const content = await each.during((path) => probeContent(queue, path));
    return content.kind === 'filesystem' ? content.uuid : undefined;
  };
  const own = await uuidOn(device);
  return async (twin) => own !== undefined && (await uuidOn(twin)) === own;
}

/**
 * Two disks with one name, and with one pool: which of them it is, a link decides, and after the next boot it may be the other
 * one. Who only has the same name is no reason to keep a pool closed, nor is another path to the disk.
 * @returns the disks that nothing tells from it @throws FailedPrecondition if one is a copy
 */
export async function refuseCopies(
  { name, queue }: TwinPlace,
  found: FoundDisk,
  hasPool: Question,
): Promise<readonly string[]> {
  const same: string[] = [];
  if (found.name === undefined) return same;
  for (const path of await othersWithName(queue, found, found.name)) {
    const twin = await judgeTwin(queue, found.devicePath, path, hasPool).catch(ifUnreadable('other'));
    if (twin === 'copy') {
      throw new FailedPrecondition(
        `pool ${name}: ${found.path} is there twice: ${path} has the same name of its own, and what the pool had once: one is a copy of the other. Take the copy out, or clear it.`,
      );
    }
    if (twin === 'same') same.push(path);
  }
  return same;
}

/** A path that is down, for one. */
function ifUnreadable<T>(otherwise: T): (error: unknown) => T {
  return (error) => {
    if (error instanceof KernelError) return otherwise;
    throw error;
  };
}
