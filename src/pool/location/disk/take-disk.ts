import { constants } from 'node:fs';
import { type DeviceLimits, dropCache, limitsOfDevice } from '../../../kernel/block/block.ts';
import { type Descriptor, openFile } from '../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import { FailedPrecondition, type HoldfastError } from '../../../volume/errors.ts';
import type { PoolLog } from '../../log.ts';
import { isZeros, readBeginning } from '../content.ts';
import { factsOf, whoHasItOpen, whyUnseen } from './candidate.ts';
import { type FoundDisk, requireStill } from './found-disk.ts';
import { type Lenience, whyNotFree } from './free-disk.ts';
import { holdAlone, lockWithRetries } from './hold-alone.ts';
import { findScatteredData } from './scattered-data.ts';

export interface Taking<Own> extends Lenience {
  readonly queue: DiskQueue;
  readonly poolName: string;
  /** The error for a disk that cannot be taken; left out: that of a pool. */
  readonly refusal?: ((path: string, reasons: readonly string[]) => HoldfastError) | undefined;
  /** Finds the disk. Called again once the disk is held exclusively. */
  locate(): Promise<FoundDisk>;
  /**
   * The part of it that is known to be ours, from a start that was cut short; undefined: none, so it must be blank.
   * @throws if it is of no use
   */
  findOwn(disk: HeldDevice): Promise<Own | undefined>;
  /** The caller has it locked, for as long as the pool is open. */
  readonly isLocked?: boolean | undefined;
  /** The configuration names this disk, and not only its like. */
  readonly isNamed: boolean;
  /** It is looked at between its ends, too. A pool may have a disk that was wiped at both ends alone. */
  readonly isLookedAtAllOver?: boolean;
  readonly log?: PoolLog | undefined;
}

/** A disk that is held exclusively. */
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
 * The one way in which a disk is taken that is written to for the first time, whatever is made on it. All that speaks
 * against it is looked for; then it is held exclusively; then all is looked for again, past the page
 * cache. Writes nothing.
 * @throws FailedPrecondition if it is not blank, or not free
 */
export async function takeDisk<Own>(taking: Taking<Own>): Promise<TakenDisk<Own>> {
  const { queue } = taking;
  const seen = await taking.locate();
  // Its message names the user; the decision is made again below.
  refuse(taking, seen, whyNotFree(await factsOf(queue, seen, undefined), taking));
  const device = await holdAlone(taking, seen);
  let pin: Descriptor | undefined;
  try {
    const found = await taking.locate();
    await requireStill(queue, found, device);
    // The page cache may be older than writes of others, past this kernel.
    await dropCache(queue, device);
    const limits = limitsOfDevice(device);
    const own = await taking.findOwn({ found, device, limits });
    const facts = await factsOf(queue, found, own === undefined ? device : undefined);
    refuse(taking, found, [...whyNotFree(facts, taking), ...(await whoHasItOpen(found))]);
    if (own === undefined && taking.isLookedAtAllOver === true) {
      const at = await findScatteredData(queue, device, 0n);
      if (at !== undefined) refuse(taking, found, [`it holds data at byte ${at}`]);
    }
    await requireSight(taking, found);
    const pinned = await openFile(queue, found.devicePath, constants.O_RDONLY | constants.O_NONBLOCK);
    pin = pinned;
    await requireStill(queue, found, pinned);
    return {
      ...{ found, device, limits, own },
      async yieldToProgram(isStill = (disk) => hasBlankBeginning(queue, disk)) {
        await device[Symbol.asyncDispose]();
        const isLocked = taking.isLocked === true || (await lockWithRetries(queue, pinned));
        if (!isLocked) refuse(taking, found, ['it is in use (see lsblk)']);
        await requireStill(queue, found, pinned);
        await dropCache(queue, pinned);
        if (!(await isStill(pinned))) refuse(taking, found, ['it was written to just now']);
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

/** A disk that is only similar to the wanted one is not taken if this process cannot see whether a program has it open. */
async function requireSight(taking: Taking<unknown>, found: FoundDisk): Promise<void> {
  const unseen = await whyUnseen(taking.queue);
  if (unseen === undefined) return;
  if (!taking.isNamed) refuse(taking, found, [unseen]);
  taking.log?.warn(
    { pool: taking.poolName, disk: found.path, reason: unseen },
    'a disk is taken anyway, as it is named',
  );
}

async function hasBlankBeginning(queue: DiskQueue, device: Descriptor): Promise<boolean> {
  return isZeros(await readBeginning(queue, device));
}

function refuse(
  { poolName, refusal }: Pick<Taking<unknown>, 'poolName' | 'refusal'>,
  { path }: FoundDisk,
  reasons: readonly string[],
): void {
  if (reasons.length > 0) throw refusal?.(path, reasons) ?? cannotBeTaken(poolName, path, reasons);
}

/** @param advice a separate sentence */
export function cannotBeTaken(
  poolName: string,
  path: string,
  reasons: readonly string[],
  advice?: string,
): FailedPrecondition {
  const more = advice === undefined ? '' : ` ${advice}`;
  return new FailedPrecondition(
    `pool ${poolName}: ${path} cannot be taken: ${reasons.join('; ')}. Only a blank disk that is not in use is.${more} Nothing was changed (docs/disks.md).`,
  );
}
