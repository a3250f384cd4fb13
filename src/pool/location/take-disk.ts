import { constants } from 'node:fs';
import { type DeviceLimits, dropCache, limitsOfDevice } from '../../kernel/block/block.ts';
import { type Descriptor, openFile } from '../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { readAtMost } from '../../kernel/file/file.ts';
import { FailedPrecondition } from '../../volume/errors.ts';
import type { PoolLog } from '../log.ts';
import { factsOf, whoHasItOpen, whyUnseen } from './candidate.ts';
import { beginningBytes, isZeros } from './content.ts';
import { type FoundDisk, requireStill } from './found-disk.ts';
import { type Lenience, whyNotFree } from './free-disk.ts';
import { holdAlone, lockWithPatience } from './hold-alone.ts';

export interface Taking<Own> extends Lenience {
  readonly queue: DiskQueue;
  readonly poolName: string;
  /** What the disk is now. It is asked again when nobody else can have it any more. */
  locate(): Promise<FoundDisk>;
  /**
   * What of it is known to be ours, from a start that was cut short; undefined: nothing, so it must be blank.
   * @throws if it is of no use
   */
  findOwn(disk: HeldDevice): Promise<Own | undefined>;
  /** The caller has it locked, for as long as the pool is open. */
  readonly isLocked?: boolean | undefined;
  /** The configuration names this disk, and not only its like. */
  readonly isNamed: boolean;
  readonly log?: PoolLog | undefined;
}

/** A disk that nobody else can have. */
export interface HeldDevice {
  readonly found: FoundDisk;
  /** For reading and writing. */
  readonly device: Descriptor;
  readonly limits: DeviceLimits;
}

export interface TakenDisk<Own> extends HeldDevice, AsyncDisposable {
  readonly own: Own | undefined;
  /**
   * Lets a program have it which wants it exclusively for itself. Until it is let go no other disk can have its number, and
   * udev and other drivers leave it alone.
   * @param isStill whether it holds what it held; unset: its beginning must be zeros
   */
  yieldToProgram(isStill?: (device: Descriptor) => Promise<boolean>): Promise<void>;
}

/**
 * The one way in which a disk is taken that is to be written to for the first time, whatever is to be made on it. All that
 * speaks against it is looked for; then it is held, so that nobody else can have it; then all is looked for again, past what
 * memory has of it. Writes nothing.
 * @throws FailedPrecondition if it is not blank, or not free
 */
export async function takeDisk<Own>(taking: Taking<Own>): Promise<TakenDisk<Own>> {
  const { queue } = taking;
  const seen = await taking.locate();
  // In words that say who has it; what counts is asked again below.
  refuse(taking, seen, whyNotFree(await factsOf(queue, seen, undefined), taking));
  const device = await holdAlone(taking, seen);
  let pin: Descriptor | undefined;
  try {
    const found = await taking.locate();
    await requireStill(queue, found, device);
    // What memory has of it may be older than what others have written, past this kernel.
    await dropCache(queue, device);
    const limits = limitsOfDevice(device);
    const own = await taking.findOwn({ found, device, limits });
    const facts = await factsOf(queue, found, own === undefined ? device : undefined);
    refuse(taking, found, [...whyNotFree(facts, taking), ...(await whoHasItOpen(found))]);
    await requireSight(taking, found);
    const pinned = await openFile(queue, found.devicePath, constants.O_RDONLY | constants.O_NONBLOCK);
    pin = pinned;
    await requireStill(queue, found, pinned);
    return {
      ...{ found, device, limits, own },
      async yieldToProgram(isStill = (disk) => hasBlankBeginning(queue, disk)) {
        await device[Symbol.asyncDispose]();
        const isLocked = taking.isLocked === true || (await lockWithPatience(queue, pinned));
        if (!isLocked) refuse(taking, found, ['it is in use (see lsblk)']);
        await requireStill(queue, found, pinned);
        await dropCache(queue, pinned);
        if (!(await isStill(pinned))) refuse(taking, found, ['somebody has written to it just now']);
      },
      async [Symbol.asyncDispose]() {
        await device[Symbol.asyncDispose]();
        await pinned[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await pin?.[Symbol.asyncDispose]();
    await device[Symbol.asyncDispose]();
    throw error;
  }
}

/** A disk that is only like what is wanted is not taken by who cannot see whether a program has it open. */
async function requireSight(taking: Taking<unknown>, found: FoundDisk): Promise<void> {
  const unseen = await whyUnseen(taking.queue);
  if (unseen === undefined) return;
  if (!taking.isNamed) refuse(taking, found, [unseen]);
  taking.log?.warn(
    { pool: taking.poolName, disk: found.path, reason: unseen },
    'a disk is taken all the same, as it is named',
  );
}

async function hasBlankBeginning(queue: DiskQueue, device: Descriptor): Promise<boolean> {
  return isZeros(await readAtMost(queue, device, { lengthBytes: beginningBytes, offsetBytes: 0 }));
}

function refuse(place: Pick<Taking<unknown>, 'poolName'>, { path }: FoundDisk, reasons: readonly string[]): void {
  if (reasons.length > 0) throw cannotBeTaken(place.poolName, path, reasons);
}

/** @param advice a sentence of its own */
export function cannotBeTaken(
  poolName: string,
  path: string,
  reasons: readonly string[],
  advice?: string,
): FailedPrecondition {
  const more = advice === undefined ? '' : ` ${advice}`;
  return new FailedPrecondition(
    `pool ${poolName}: ${path} cannot be taken: ${reasons.join('; ')}. Only a blank disk that nobody uses is.${more} Nothing was changed (docs/disks.md).`,
  );
}
