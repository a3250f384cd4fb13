import { constants } from 'node:fs';
import { probeContent } from '../../../kernel/block/blkid.ts';
import { dropCache, limitsOfDevice } from '../../../kernel/block/block.ts';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { KernelError } from '../../../kernel/call/errno.ts';
import { readWhatCan, unreadableByte } from '../../../kernel/file/file.ts';
import { FailedPrecondition } from '../../../volume/errors.ts';
import { type FoundDisk, othersWithName } from '../../location/disk/found-disk.ts';
import { type DiskEnds, poolIn } from './label/labelling.ts';
import { type DiskShape, minimumDiskBytes } from './label/layout.ts';

/** The relation of another disk with the same identity to the disk of a pool. */
export type Twin =
  /** A disk that has nothing to do with the pool: there are disks that all say the same of themselves. */
  | 'other'
  /** It has the pool, and something else beside it. */
  | 'copy'
  /** Nothing tells the two apart: another path to the disk, or a copy that has not been written to since. */
  | 'same';

interface OpenEnds extends DiskEnds {
  readonly shape: DiskShape;
  /** Places between the ends, if they count. */
  readonly between: Buffer;
}

/** Both its ends, as long as nothing of a volume lies there: in front the table and the label, at the end the table's other half. */
const [frontBytes, tailBytes] = [2 << 20, 1 << 20];

/** An end may change between two looks while the disk is in use. */
const looksAtMost = 3;

/** Places between the ends of a disk whose content nothing names, and how much is read at each. */
const [placesBetween, placeBytes] = [30, 64 << 10];
const blockBytes = 4096;

/** The test by which another disk has the same pool. */
interface Question {
  has(device: Descriptor, ends: OpenEnds): Promise<boolean>;
  /** Nothing names what the disk has: only bytes tell it from another one. */
  readonly isNameless: boolean;
}

/** Compares what lies on two devices now, past the memory of this kernel. */
export async function judgeTwin(queue: DiskQueue, path: string, twinPath: string, question: Question): Promise<Twin> {
  const open = (each: string) => openFile(queue, each, constants.O_RDONLY | constants.O_NONBLOCK);
  await using twin = await open(twinPath);
  const read = (device: Descriptor) => readEnds(queue, device, question.isNameless ? placesBetween : 0);
  const seen = await read(twin);
  if (seen === undefined || !(await question.has(twin, seen))) return 'other';
  await using own = await open(path);
  for (let looks = 0; looks < looksAtMost; looks++) {
    await dropCache(queue, own);
    await dropCache(queue, twin);
    const [a, b] = [await read(own), await read(twin)];
    if (a !== undefined && b !== undefined && isSame(a, b)) return 'same';
  }
  return 'copy';
}

function isSame(a: OpenEnds, b: OpenEnds): boolean {
  const parts = ['front', 'tail', 'between'] as const;
  return a.shape.sizeBytes === b.shape.sizeBytes && parts.every((part) => a[part].equals(b[part]));
}

async function readEnds(queue: DiskQueue, device: Descriptor, places = 0): Promise<OpenEnds | undefined> {
  const shape = limitsOfDevice(device);
  if (shape.sizeBytes < minimumDiskBytes) return undefined;
  const sizeBytes = Number(shape.sizeBytes);
  const read = (offsetBytes: number, lengthBytes: number) => readWhatCan(queue, device, { offsetBytes, lengthBytes });
  const [front, tail] = [await read(0, frontBytes), await read(sizeBytes - tailBytes, tailBytes)];
  const between: Buffer[] = [];
  for (let place = 1; place <= places; place++) {
    const at = ((sizeBytes - placeBytes) / (places + 1)) * place;
    between.push(await read(Math.floor(at / blockBytes) * blockBytes, placeBytes));
  }
  return { shape, front, tail, between: Buffer.concat(between) };
}

function isUnread({ front }: DiskEnds): boolean {
  return front.every((byte) => byte === unreadableByte);
}

export interface TwinPlace {
  readonly queue: DiskQueue;
  readonly name: string;
}

/** The question for a disk with a label. */
export function hasLabelOf(poolId: string): Question {
  return { isNameless: false, has: async (_device, ends) => poolIn(ends, ends.shape) === poolId };
}

/** Which of several disks have the pool. What cannot be read has not, as far as can be known. */
export async function withLabelOf(queue: DiskQueue, paths: readonly string[], poolId: string): Promise<string[]> {
  const having: string[] = [];
  const label = hasLabelOf(poolId);
  for (const path of paths) {
    const has = async () => {
      await using device = await openFile(queue, path, constants.O_RDONLY | constants.O_NONBLOCK);
      const ends = await readEnds(queue, device);
      return ends !== undefined && (await label.has(device, ends));
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
  const label = hasLabelOf(poolId);
  const question: Question = {
    isNameless: false,
    has: async (device, ends) => isUnread(ends) || (await label.has(device, ends)),
  };
  for (const each of named) {
    const twin = await judgeTwin(queue, path, each, question).catch(ifUnreadable('copy'));
    if (twin !== 'other') return each;
  }
  return undefined;
}

/**
 * The question for an adopted disk, which is known by its filesystem. Without one, e.g. a raw volume or during a wipe, it is known
 * by its identity and by not having become smaller: any other such disk could be taken for it.
 */
export async function hasFilesystemOf(queue: DiskQueue, device: Descriptor): Promise<Question> {
  const uuidOn = async (each: Descriptor) => {
    const content = await each.during((path) => probeContent(queue, path));
    return content.kind === 'filesystem' ? content.uuid : undefined;
  };
  const own = await uuidOn(device);
  if (own !== undefined) return { isNameless: false, has: async (twin) => (await uuidOn(twin)) === own };
  const { sizeBytes } = limitsOfDevice(device);
  return { isNameless: true, has: async (_twin, { shape }) => shape.sizeBytes >= sizeBytes };
}

/**
 * Refuses a copy of the disk: of two disks with one identity and one pool a link in /dev decides, and after the next boot it may
 * name the other one. A disk with the same identity and other content keeps no pool closed, nor does another path to the disk.
 * @returns the disks that nothing tells from it @throws FailedPrecondition if one is a copy
 */
export async function refuseCopies(
  { name, queue }: TwinPlace,
  found: FoundDisk,
  question: Question,
): Promise<readonly string[]> {
  const same: string[] = [];
  if (found.name === undefined) return same;
  for (const path of await othersWithName(queue, found, found.name)) {
    const twin = await judgeTwin(queue, found.devicePath, path, question).catch(ifUnreadable('other'));
    if (twin === 'copy' && question.isNameless) {
      throw new FailedPrecondition(
        `pool ${name}: ${found.path} is there twice: ${path} has the same identity and holds something else, and nothing tells which of them has the volume. Take the other one out. Nothing was changed.`,
      );
    }
    if (twin === 'copy') {
      throw new FailedPrecondition(
        `pool ${name}: ${found.path} is there twice: ${path} has the same identity, and what the pool had once: one is a copy of the other. Take the copy out, or clear it.`,
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
