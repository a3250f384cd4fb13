import type { Pools } from '../../pool/pools.ts';
import { AlreadyExists, FailedPrecondition } from '../../volume/errors.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import { parseSnapshot } from '../../volume/snapshot-record.ts';
import { requireOpen } from '../copies.ts';
import { type LostOrder, requireInTime } from '../in-time.ts';
import type { WaitingSnapshot } from '../job.ts';
import { movesOf, patiently } from '../source.ts';
import { wholeUnder } from './snapshot-move.ts';

export interface FinishParts {
  readonly pools: Pools;
  readonly objects: ObjectQueue;
  readonly signal: AbortSignal;
  /** The node that it was coming from; undefined: a pool of this node. */
  readonly lost: LostOrder | undefined;
}

/**
 * Makes a copy the snapshot that was coming from another node, or from another pool, which is lost.
 * @throws FailedPrecondition, Unavailable, AlreadyExists: why not; nothing is changed
 */
export async function finishSnapshot(
  { lost, objects, pools, signal }: FinishParts,
  { id, to, whole }: WaitingSnapshot,
): Promise<void> {
  const target = movesOf(pools.get(to)).snapshots;
  const record = parseSnapshot(whole.record, `of snapshot ${id}, which was coming to pool ${to}`);
  await patiently({ objects, signal }, [id], async () => {
    requireOpen(pools, id);
    for (const { moves, name } of pools.all()) {
      if ((await moves?.snapshots.settled(id)) !== undefined) {
        // A driver that was killed after the commit has it already.
        if (name === to && !target.isLeft(id)) return target.noteArrival(id);
        throw new AlreadyExists(
          `snapshot ${id} is not finished: pool ${name} of this node has a copy of it, with the same bytes. If that is not the snapshot: holdfast move cancel ${record.sourceId} makes it that.`,
        );
      }
    }
    if (wholeUnder(await target.notedOf(id)) !== whole.fenceId) {
      throw new FailedPrecondition(
        `snapshot ${id} has not come to pool ${to} as a whole: the part that is there can never become the snapshot.`,
      );
    }
    const { fenceId, generation, moveId } = whole;
    target.requireRoomFor(record);
    const alone = <T>(_of: unknown, work: () => Promise<T>) => work();
    await using incoming = await target.receive(record, { moveId, newBytes: 0n, isGiven: true, alone });
    // Not before that, which waits for a disk.
    requireInTime(id, lost?.deadline);
    await incoming.finish({ moveId, readUnder: fenceId, fenceId, generation }, lost);
  });
}
