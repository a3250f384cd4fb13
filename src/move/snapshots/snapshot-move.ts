import { z } from 'zod';
import type { IncomingSnapshot, PoolSnapshotMoves } from '../../pool/moves.ts';
import type { Pool } from '../../pool/pool.ts';
import { storedBytes } from '../../volume/encryption.ts';
import { AlreadyExists, FailedPrecondition, Unavailable } from '../../volume/errors.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import { type Fence, isFenceFor } from '../../volume/move/rule.ts';
import { parseJsonInput } from '../../volume/parse-input.ts';
import type { SnapshotRecord } from '../../volume/snapshot-record.ts';
import { bytesIn, copyRanges, dataRanges, type Pace, piecesAhead } from '../copy.ts';
import { movesOf, patiently } from '../source.ts';

export interface SnapshotMoveParts {
  readonly record: SnapshotRecord;
  readonly from: Pool;
  readonly to: Pool;
  /** The space that its blocks may take in the other pool. */
  readonly newBytes: bigint;
  readonly objects: ObjectQueue;
  readonly pace: Pace;
  readonly signal: AbortSignal;
  begun(totalBytes: bigint): void;
  moved(bytes: bigint): void;
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
 * Moves one snapshot to another pool of the node, resumed wherever an earlier try has come to. Until it is handed over it can be used,
 * and removed, where it is: it never changes, so all of it is read under its fence in one round.
 */
export async function moveSnapshot(parts: SnapshotMoveParts): Promise<void> {
  const { from, newBytes, objects, record, signal, to } = parts;
  const { id } = record;
  const [source, target] = [movesOf(from).snapshots, movesOf(to).snapshots];
  if ((await target.settled(id)) !== undefined) return settleArrived(parts, source, target);
  source.requireMovable(record);
  target.requireRoomFor(record);
  const fence = await patiently({ objects, signal }, [id], async () => {
    // Another one may have been taken under its name since this one was found.
    const now = await source.settled(id);
    if (now !== undefined && now.createdAt !== record.createdAt) {
      throw new Unavailable(`snapshot ${id} is another one by now: it moves in the next try.`);
    }
    return source.close(id, to.name);
  });
  const { isGiven, moveId } = fence;
  if (!isFenceFor(fence, to.name)) {
    throw new SnapshotArrivedAndGone(`snapshot ${id} was handed over to another pool than ${to.name}.`);
  }
  await using incoming = await target.receive(record, {
    ...{ moveId, newBytes, isGiven },
    // A pool clones one at a time of the same volume, and it must not be deleted meanwhile.
    alone: (of, work) => patiently({ objects, signal }, [of], work),
  });
  const content = await contentOf(parts, incoming, fence);
  if (!content.isWhole) await copy(parts, { incoming, source, content });
  if (!isGiven) await incoming.confirm();
  await patiently({ objects, signal }, [id], async () => {
    const answer = await source.give(id, fence);
    await incoming.commit({ moveId, readUnder: fence.fenceId }, answer);
    await source.settle(id, answer.generation);
  });
}

/** The target has it: an earlier try has died before its source heard of it. */
async function settleArrived(
  { from, objects, record: { id }, signal, to }: SnapshotMoveParts,
  source: PoolSnapshotMoves,
  target: PoolSnapshotMoves,
): Promise<void> {
  await patiently({ objects, signal }, [id], async () => {
    // Its commit may have been in doubt, and may not have come to the disk.
    if ((await target.settled(id)) === undefined) throw new Unavailable(`snapshot ${id} has not arrived yet.`);
    const { generation } = (await target.stateOf(id)).mark;
    if (await source.settle(id, generation)) return;
    throw new AlreadyExists(
      `snapshot ${id} cannot move from pool ${from.name} to pool ${to.name}: a copy of it is there already.`,
    );
  });
}

/** @throws SnapshotArrivedAndGone if it was handed over, and the copy that waits for it is not there */
async function contentOf(
  { from, record: { id, sourceId }, to }: SnapshotMoveParts,
  incoming: IncomingSnapshot,
  { fenceId, isGiven }: Fence,
): Promise<Content> {
  const noted = incoming.isNew ? undefined : parseContent(incoming.noted);
  const isOurs = noted?.fenceId === fenceId;
  if (isGiven && !(isOurs && noted.isWhole)) {
    throw new SnapshotArrivedAndGone(
      `snapshot ${id} was handed over to pool ${to.name}, which has no copy of it any more. holdfast move cancel ${sourceId} makes the copy in pool ${from.name} the snapshot again.`,
    );
  }
  if (isOurs) return noted;
  // All that an earlier fence has left is compared, too.
  return { fenceId, isClone: incoming.isNew ? incoming.isClone : true, offsetBytes: 0n, isWhole: false };
}

interface CopyParts {
  readonly incoming: IncomingSnapshot;
  readonly source: PoolSnapshotMoves;
  readonly content: Content;
}

async function copy(
  { begun, from, moved, pace, record, signal, to }: SnapshotMoveParts,
  { content, incoming, source }: CopyParts,
): Promise<void> {
  const note = (changes: Partial<Content>) => noteContent(incoming, { ...content, ...changes });
  await note({});
  const { isClone, offsetBytes: fromBytes } = content;
  const endBytes = storedBytes(record);
  await using file = await source.read(record.id);
  const { queue: fromQueue } = from;
  const ranges = () => dataRanges(fromQueue, file, fromBytes, endBytes);
  begun(await bytesIn(ranges()));
  await copyRanges({
    ...{ to: incoming, toQueue: to.queue, endBytes, targetBytes: endBytes, fromBytes, pace, signal, moved },
    pieces: piecesAhead({ from: file, fromQueue, ranges: ranges(), endBytes, fromBytes }),
    outside: isClone ? 'alike' : 'zeros',
    wrote: (range) => incoming.wrote(range),
    noted: (offsetBytes) => note({ offsetBytes }),
  });
  await note({ offsetBytes: endBytes, isWhole: true });
}

function noteContent(incoming: IncomingSnapshot, content: Content): Promise<void> {
  return incoming.note(JSON.stringify({ ...content, offsetBytes: content.offsetBytes.toString() }));
}

/** True if all bytes may have come: only such a copy is ever handed over, and may be the last one. */
export function mayBeWhole(noted: string | undefined): boolean {
  return noted !== undefined && parseContent(noted)?.isWhole !== false;
}

/** @returns undefined if the note cannot be read: the copy starts again */
function parseContent(noted: string | undefined): Content | undefined {
  const parsed = noted === undefined ? undefined : parseJsonInput(storedContent, noted);
  if (parsed === undefined || !('data' in parsed)) return undefined;
  return { ...parsed.data, offsetBytes: BigInt(parsed.data.offsetBytes) };
}
