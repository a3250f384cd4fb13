import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { type Content, probePart } from '../../../../kernel/block/blkid.ts';
import { dropCache } from '../../../../kernel/block/block.ts';
import { isSameDisk } from '../../../../kernel/block/disk-identity.ts';
import type { Descriptor } from '../../../../kernel/call/descriptor.ts';
import type { DiskQueue } from '../../../../kernel/call/disk-queue.ts';
import { KernelError } from '../../../../kernel/call/errno.ts';
import { readWhatCan, syncDirectory, syncFile, writeAt } from '../../../../kernel/file/file.ts';
import { DataLoss, FailedPrecondition, Unavailable } from '../../../../volume/errors.ts';
import { formatBytes } from '../../../../volume/size.ts';
import { step } from '../../../../volume/step.ts';
import { factsOf } from '../../../location/disk/candidate.ts';
import {
  type FoundDisk,
  locateDisk,
  type OpenDisk,
  openDisk,
  requireStill,
} from '../../../location/disk/found-disk.ts';
import { whyNotFree } from '../../../location/disk/free-disk.ts';
import { cannotBeTaken, takeDisk } from '../../../location/disk/take-disk.ts';
import { FormatMarker } from '../../../location/format-marker.ts';
import type { PoolLog } from '../../../log.ts';
import { markerPathOf, readMarker } from '../../../records/pool-file.ts';
import { poolsDirectory } from '../../../records/pools-directory.ts';
import { holdsFilesystemOfVolumes } from '../adoptable-content.ts';
import { type DiskEnds, endsOf, judgeDisk, planOf, type Verdict } from './labelling.ts';
import { type Extent, layoutOf, minimumDiskBytes } from './layout.ts';

export interface LabelledPlace {
  readonly queue: DiskQueue;
  readonly poolName: string;
  readonly dataDirectory: string;
  /** The disk's path in the configuration. */
  readonly path: string;
  /** The disk's permanent name, where that is known: no other disk is taken for it. */
  readonly identity?: string | undefined;
  readonly log?: PoolLog | undefined;
}

/** A disk that has a label of ours. */
export interface LabelledDisk {
  readonly found: FoundDisk;
  readonly poolId: string;
  readonly shape: OpenDisk['shape'];
  readonly front: Buffer;
  /** false: one half of its partition table is damaged. */
  readonly isWhole: boolean;
}

/**
 * Which pool the disk has. Changes nothing.
 * @param isFresh not from memory, which may be older than what others have written, past this kernel or to a part of the disk
 * @returns undefined if it is blank, as far as it was looked at, and this node has had no pool of that name
 * @throws FailedPrecondition if it has anything else, or another pool than this node had
 */
export async function readLabelled(place: LabelledPlace, isFresh = false): Promise<LabelledDisk | undefined> {
  const { path, poolName } = place;
  await using judged = await judge(place, isFresh);
  const { descriptor, ends, found, shape, verdict } = judged;
  switch (verdict.kind) {
    case 'mixed':
      throw notOurs(place, 'one half of its partition table is not of Holdfast');
    case 'labelled':
      await refuseSignatures(place, judged, verdict.diskBytes);
      return { found, shape, front: ends.front, poolId: verdict.poolId, isWhole: verdict.isWhole };
    case 'cut':
      throw new DataLoss(
        `pool ${poolName}: ${path} has ${shape.sizeBytes} bytes, and had ${verdict.diskBytes} when it was labelled: data is missing. Nothing was changed.`,
      );
    case 'blank':
    case 'begun':
      return undefined;
    case 'foreign':
      throw await notBlank(place, found, descriptor);
  }
}

/**
 * True if the disk has something that is neither ours nor blank. Changes nothing.
 * @throws FailedPrecondition if this node had a pool of that name there
 */
export async function hasSomethingElse(place: LabelledPlace): Promise<boolean> {
  await using judged = await judge(place);
  return judged.verdict.kind === 'foreign';
}

/** The disk, open, and what it has. */
interface JudgedDisk extends OpenDisk, AsyncDisposable {
  readonly found: FoundDisk;
  readonly ends: DiskEnds;
  readonly verdict: Verdict;
}

async function judge(place: LabelledPlace, isFresh = false): Promise<JudgedDisk> {
  const { queue } = place;
  const found = await locate(place);
  const disk = await openDisk(queue, found, constants.O_RDONLY);
  const close = () => disk.descriptor[Symbol.asyncDispose]();
  try {
    refuseSmall(place, disk.shape.sizeBytes);
    if (isFresh) await dropCache(queue, disk.descriptor);
    const { ends, verdict } = await examine(place, found, disk);
    await refuseOtherPool(place, verdict);
    return { ...disk, found, ends, verdict, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Does the same as `readLabelled`; and a blank disk gets a label, and a labelling that was cut short is finished. */
export async function readOrLabel(place: LabelledPlace): Promise<LabelledDisk> {
  await markerOf(place).removeVoid();
  const found = (await readLabelled(place, true)) ?? (await label(place));
  // It goes before the first use: so it can be there only if a start was cut short just now, or it came back with a backup.
  const marker = markerOf(place);
  if ((await marker.read()) !== undefined) await step('open/unmark', () => marker.clear());
  return found;
}

/** A disk whose labelling may be finished, or that may be labelled. */
interface Labelable {
  readonly ends: DiskEnds;
  /** The pool whose labelling was cut short; undefined: it is blank. */
  readonly begunId: string | undefined;
}

/** Writes a label on a disk that is shown to be blank and not in use, while no other program can have it. */
async function label(place: LabelledPlace): Promise<LabelledDisk> {
  const { identity, log, path, poolName, queue } = place;
  let seen: Labelable | undefined;
  await using taken = await takeDisk({
    ...{ queue, poolName, log, isNamed: identity === undefined },
    locate: () => locate(place),
    async findOwn({ device, found, limits: shape }) {
      refuseSmall(place, shape.sizeBytes);
      const { ends, verdict } = await examine(place, found, { descriptor: device, shape });
      if (verdict.kind !== 'blank' && verdict.kind !== 'begun') throw await notBlank(place, found, device);
      seen = { ends, begunId: verdict.kind === 'begun' ? verdict.poolId : undefined };
      return seen.begunId;
    },
  });
  const { device, found, limits: shape } = taken;
  if (seen === undefined || found.name === undefined) throw cannotBeTaken(poolName, path, ['it was not read']);
  const disk = { name: found.name, sizeBytes: shape.sizeBytes };
  const poolId = seen.begunId ?? randomUUID();
  await step('open/mark', async () => {
    await queue.run(() => mkdir(poolsDirectory(place.dataDirectory), { recursive: true, mode: 0o700 }));
    await syncDirectory(queue, place.dataDirectory);
    await markerOf(place).set({ disk, uuid: poolId });
  });
  // The last look before the first byte.
  await requireStill(queue, found, device);
  const plan = planOf({ poolId, disk, shape });
  for (const pieces of plan) {
    await step('open/format', async () => {
      for (const { bytes, offsetBytes } of pieces) await writeAt(queue, device, bytes, offsetBytes);
      await syncFile(queue, device);
    });
  }
  const front = Buffer.from(seen.ends.front);
  for (const { bytes, offsetBytes } of plan.flat()) {
    if (offsetBytes < BigInt(front.length)) bytes.copy(front, Number(offsetBytes));
  }
  return { found, shape, poolId, front, isWhole: true };
}

async function locate({ identity, path, poolName, queue }: LabelledPlace): Promise<FoundDisk> {
  const found = await locateDisk(queue, poolName, path);
  if (identity === undefined || found.name === identity) return found;
  throw new Unavailable(`${path} is another disk than a moment ago: it is looked at again.`);
}

async function examine(
  place: LabelledPlace,
  { name }: FoundDisk,
  { descriptor, shape }: OpenDisk,
): Promise<{ readonly ends: DiskEnds; readonly verdict: Verdict }> {
  const { queue } = place;
  const { front, tail } = endsOf(shape);
  const ends = { front: await readPart(queue, descriptor, front), tail: await readPart(queue, descriptor, tail) };
  const begun = await markerOf(place).read();
  // Without a permanent name it cannot be recognized as the one that was begun.
  const disk = { name: name ?? '', sizeBytes: shape.sizeBytes };
  const isBegun = begun !== undefined && name !== undefined && isSameDisk(begun.disk, disk);
  return { ends, verdict: judgeDisk(ends, shape, disk, isBegun ? begun.uuid : undefined) };
}

function readPart(queue: DiskQueue, device: Descriptor, { lengthBytes, offsetBytes }: Extent): Promise<Buffer> {
  return readWhatCan(queue, device, { lengthBytes: Number(lengthBytes), offsetBytes: Number(offsetBytes) });
}

/**
 * A disk of ours holds no signature, neither as a whole nor in its partition: a program that made one there since has data
 * on it. A part that cannot be read says nothing.
 */
async function refuseSignatures(
  place: LabelledPlace,
  { descriptor, shape }: OpenDisk,
  diskBytes: bigint,
): Promise<void> {
  const { queue } = place;
  const { partition } = layoutOf({ ...shape, sizeBytes: diskBytes });
  const whole = await probePart(queue, descriptor, { offsetBytes: 0n, lengthBytes: shape.sizeBytes }).catch(
    ifUnreadable,
  );
  const isTableOfOurs = whole.kind === 'partitions' && ['gpt', 'PMBR'].includes(whole.type);
  if (whole.kind !== 'blank' && !isTableOfOurs) throw notOurs(place, `it holds ${nameOf(whole)}`);
  const part = await probePart(queue, descriptor, partition).catch(ifUnreadable);
  if (part.kind !== 'blank') throw notOurs(place, `its partition holds ${nameOf(part)}`);
}

function ifUnreadable(error: unknown): Content {
  if (!(error instanceof KernelError)) throw error;
  return { kind: 'blank' };
}

function nameOf(content: Content): string {
  return 'type' in content ? content.type : 'signatures of several kinds';
}

function notOurs({ path, poolName }: LabelledPlace, what: string): FailedPrecondition {
  return new FailedPrecondition(
    `pool ${poolName}: ${path} has the label of a pool, but ${what}. Another program has used the disk since. Nothing was changed (docs/disks.md).`,
  );
}

async function notBlank(place: LabelledPlace, found: FoundDisk, device: Descriptor): Promise<FailedPrecondition> {
  const facts = await factsOf(place.queue, found, device);
  const reasons = whyNotFree(facts);
  // A disk of a section with match is not named, so what it holds cannot be kept.
  const isKept =
    place.identity === undefined && typeof facts.content === 'object' && holdsFilesystemOfVolumes(facts.content.found);
  const why = reasons.length > 0 ? reasons : ['it holds data of an unknown kind'];
  return cannotBeTaken(place.poolName, place.path, why, isKept ? 'To keep what it holds: adopt: true.' : undefined);
}

function refuseSmall({ path, poolName }: LabelledPlace, sizeBytes: bigint): void {
  if (sizeBytes >= minimumDiskBytes) return;
  throw new FailedPrecondition(
    `pool ${poolName}: ${path} has only ${formatBytes(sizeBytes)}: a pool needs a disk of at least ${formatBytes(minimumDiskBytes)}.`,
  );
}

/** A disk in another's place is neither used nor written to. @throws FailedPrecondition */
async function refuseOtherPool(
  { dataDirectory, path, poolName, queue }: LabelledPlace,
  verdict: Verdict,
): Promise<void> {
  const markerPath = markerPathOf(dataDirectory, poolName);
  const knownId = await readMarker(queue, markerPath);
  if (knownId === undefined) return;
  if (verdict.kind === 'labelled') {
    if (verdict.poolId === knownId) return;
    throw new FailedPrecondition(
      `pool ${poolName}: ${path} holds pool ${verdict.poolId}, but on this node the pool was ${knownId}. Put the right disk back. If the change is meant, remove ${markerPath}.`,
    );
  }
  if (verdict.kind === 'cut' || verdict.kind === 'mixed') return;
  throw new FailedPrecondition(
    `pool ${poolName}: this node had pool ${knownId} here, but ${path} has no pool now. Put the right disk back. To start with an empty pool, remove ${markerPath}.`,
  );
}

function markerOf({ dataDirectory, poolName, queue }: LabelledPlace): FormatMarker {
  return new FormatMarker(queue, poolsDirectory(dataDirectory), poolName);
}
