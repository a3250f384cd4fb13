import { z } from 'zod';
import type { IncomingSnapshot, PoolSnapshotMoves } from '../../pool/moves.ts';
import type { Pool } from '../../pool/pool.ts';
import { storedBytes } from '../../volume/encryption.ts';
import { AlreadyExists, DataLoss, FailedPrecondition, Unavailable } from '../../volume/errors.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import { type CopyMark, type Fence, isFenceFor } from '../../volume/move/rule.ts';
import { parseJsonInput } from '../../volume/parse-input.ts';
import { copyRanges, type Pace } from '../copy.ts';
import { movesOf, patiently } from '../source.ts';
import { type Held, placeOf } from './held.ts';

export interface SnapshotMoveParts {
  readonly held: Held;
  readonly to: Pool;
  /** The space that its blocks may take in the other pool. */
  readonly newBytes: bigint;
  readonly objects: ObjectQueue;
  readonly pace: Pace;
  readonly signal: AbortSignal;
  begun(totalBytes: bigint): void;
  moved(bytes: bigint): void;
  /** All of it has come, and may be handed over next. @param generation of the copy that it leaves */
  whole(copy: Fence & Pick<CopyMark, 'generation'>): Promise<void>;
}

/** The content of the target, as it is noted beside it: durable only after the bytes are. */
interface Content {
  readonly fenceId: string;
  /** It began as a clone: all of it is compared. */
  readonly isClone: boolean;
  readonly offsetBytes: bigint;
  readonly isWhole: boolean;
}

const storedContent = z.strictObject({
  fenceId: z.string(),
  isClone: z.boolean(),
  offsetBytes: z.string().regex(/^[0-9]{1,19}$/),
  isWhole: z.boolean(),
});

/** The target of a snapshot that was handed over has neither the snapshot nor the copy that waits for it, or was another pool. */
export class SnapshotArrivedAndGone extends FailedPrecondition {}

/**
 * Moves one snapshot to a pool of this node, resumed wherever an earlier try has come to. Until it is handed over it can be used,
 * and removed, where it is: it never changes, so all of it is read under its fence in one round.
 */
export async function moveSnapshot(parts: SnapshotMoveParts): Promise<void> {
  const { held, newBytes, objects, signal, to } = parts;
  const { record } = held;
  const { id } = record;
  const target = movesOf(to).snapshots;
  if ((await target.settled(id)) !== undefined) return settleArrived(parts, target);
  if (held.whyStays !== undefined) throw new FailedPrecondition(held.whyStays);
  target.requireRoomFor(record);
  const { fence, generation } = await patiently({ objects, signal }, [id], async () => {
    const mark = held.node === undefined ? (await held.look())?.mark : await requireNotPast(held, target);
    return { fence: await held.close(to.name), generation: mark?.generation };
  });
  const { isGiven, moveId } = fence;
  const node = held.node === undefined ? undefined : (await target.noted(id)).node;
  if (!isFenceFor(fence, to.name, node)) {
    throw new SnapshotArrivedAndGone(`snapshot ${id} was handed over to another pool than ${to.name}.`);
  }
  await using incoming = await target.receive(record, {
    ...{ moveId, newBytes, isGiven },
    // A pool clones one at a time of the same volume, and it must not be deleted meanwhile.
    alone: (of, work) => patiently({ objects, signal }, [of], work),
  });
  const content = await contentOf(parts, incoming, fence);
  if (!content.isWhole) await copy(parts, { incoming, fence, content });
  if (!isGiven) await incoming.confirm();
  await patiently({ objects, signal }, [id], async () => {
    if (generation !== undefined) await parts.whole({ ...fence, generation });
    const answer = await held.give(fence);
    await incoming.commit({ moveId, readUnder: fence.fenceId }, answer, held.node);
    await settle(parts, answer.generation);
  });
}

/** Its source hears that it has arrived. @throws AlreadyExists if the copy there is a later one: it was taken back */
async function settle({ held, to }: SnapshotMoveParts, generation: number): Promise<void> {
  if (await held.settle(generation)) return;
  throw new AlreadyExists(
    `snapshot ${held.record.id} cannot move from ${placeOf(held)} to pool ${to.name}: a copy of it is there already.`,
  );
}

/** Asked before it is fenced: a copy that its node gives can be committed here. @returns its mark @throws FailedPrecondition */
async function requireNotPast(held: Held, target: PoolSnapshotMoves): Promise<CopyMark | undefined> {
  const state = await held.look();
  // One that was handed over has been let in before.
  if (state !== undefined && state.why !== 'given') await target.requireNotPast(held.record.id, state.mark);
  return state?.mark;
}

/** The target has it: an earlier try has died before its source heard of it. */
async function settleArrived(parts: SnapshotMoveParts, target: PoolSnapshotMoves): Promise<void> {
  const { held, objects, signal } = parts;
  const { id } = held.record;
  await patiently({ objects, signal }, [id], async () => {
    // Its commit may have been in doubt, and may not have come to the disk.
    if ((await target.settled(id)) === undefined) throw new Unavailable(`snapshot ${id} has not arrived yet.`);
    // A driver that was killed after the commit may not have noted it.
    await target.noteArrival(id);
    await settle(parts, await target.verified(id));
  });
}

/** @throws SnapshotArrivedAndGone if it was handed over, and the copy that waits for it is not there */
async function contentOf(
  { held, to }: SnapshotMoveParts,
  incoming: IncomingSnapshot,
  { fenceId, isGiven }: Fence,
): Promise<Content> {
  const { id, sourceId } = held.record;
  const noted = incoming.isNew ? undefined : parseContent(incoming.noted);
  const isOurs = noted?.fenceId === fenceId;
  if (isGiven && !(isOurs && noted.isWhole)) {
    throw new SnapshotArrivedAndGone(
      `snapshot ${id} was handed over to pool ${to.name}, which has no copy of it any more. holdfast move cancel ${sourceId} makes the copy in ${placeOf(held)} the snapshot again.`,
    );
  }
  if (isOurs) return noted;
  // All that an earlier fence has left is compared, too.
  return { fenceId, isClone: incoming.isNew ? incoming.isClone : true, offsetBytes: 0n, isWhole: false };
}

interface CopyParts {
  readonly incoming: IncomingSnapshot;
  readonly fence: Fence;
  readonly content: Content;
}

async function copy(
  { begun, held, moved, pace, signal, to }: SnapshotMoveParts,
  { content, fence, incoming }: CopyParts,
): Promise<void> {
  const note = (changes: Partial<Content>) => noteContent(incoming, { ...content, ...changes });
  await note({});
  const { isClone, offsetBytes: fromBytes } = content;
  const endBytes = storedBytes(held.record);
  await using reading = await held.read(fence, fromBytes, signal);
  requireEnd(reading.endBytes, endBytes);
  begun(reading.totalBytes);
  await copyRanges({
    ...{ to: incoming, toQueue: to.queue, endBytes, targetBytes: endBytes, fromBytes, pace, signal, moved },
    pieces: reading.pieces,
    outside: isClone ? 'alike' : 'zeros',
    wrote: (range) => incoming.wrote(range),
    noted: (offsetBytes) => note({ offsetBytes }),
  });
  await note({ offsetBytes: endBytes, isWhole: true });
}

/** @throws DataLoss if its node names another end than its record: it is another snapshot */
function requireEnd(endBytes: bigint, expected: bigint): void {
  if (endBytes === expected) return;
  throw new DataLoss(
    `The other end says that the snapshot ends at ${endBytes}, and by its record it ends at ${expected}. Nothing was moved.`,
  );
}

function noteContent(incoming: IncomingSnapshot, content: Content): Promise<void> {
  return incoming.note(JSON.stringify({ ...content, offsetBytes: content.offsetBytes.toString() }));
}

/** True if all bytes may have come: only such a copy is ever handed over, and may be the last one. */
export function mayBeWhole(noted: string | undefined): boolean {
  return noted !== undefined && parseContent(noted)?.isWhole !== false;
}

/** The fence under which all of it was read; undefined: not all of it has come. */
export function wholeUnder(noted: string | undefined): string | undefined {
  const content = parseContent(noted);
  return content?.isWhole === true ? content.fenceId : undefined;
}

/** @returns undefined if the note cannot be read: the copy starts again */
function parseContent(noted: string | undefined): Content | undefined {
  const parsed = noted === undefined ? undefined : parseJsonInput(storedContent, noted);
  if (parsed === undefined || !('data' in parsed)) return undefined;
  return { ...parsed.data, offsetBytes: BigInt(parsed.data.offsetBytes) };
}
