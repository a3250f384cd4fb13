import { isOfMove } from '../pool/catalog/move-mark.ts';
import type { Pools } from '../pool/pools.ts';
import { AlreadyExists, FailedPrecondition } from '../volume/errors.ts';
import { hasGivenUp, mayBeLast, type Noted, wasCommitted } from '../volume/move/rule.ts';
import { copiesIn, requireOpen } from './copies.ts';
import { type LostOrder, requireInTime } from './in-time.ts';
import { arrivalOf, type MoveJob, type WholeCopy } from './job.ts';
import { readUnderBy } from './moving.ts';
import { requireSecondWord } from './second-word.ts';
import { movesOf } from './source.ts';

export interface FinishOrder {
  /** The node that was its source; undefined: a pool of this node, which is not in the configuration any more, or has an empty disk. */
  readonly lost: LostOrder | undefined;
  /** Also a copy since which the volume could be used, and changed. */
  readonly isEvenSo: boolean;
  /** Nothing becomes the volume: only what can refuse it is asked. */
  readonly isTrial?: boolean | undefined;
}

/**
 * Makes the copy of a move the volume, without its source, which is lost. The caller has claimed the volume.
 * @throws FailedPrecondition, Unavailable, AlreadyExists: why not; nothing is changed
 */
export async function finishCopy(pools: Pools, job: MoveJob, { isEvenSo, isTrial, lost }: FinishOrder): Promise<void> {
  const { from, id, moveId, to, whole } = job;
  // Also the pool that it leaves, as long as that is in the configuration.
  requireOpen(pools, id);
  for (const { pool, state } of await copiesIn(pools, id)) {
    const isSource = lost === undefined && pool.name === from;
    // Its disk is as it was before the hand-over: the volume is lost there.
    if (state.why === 'old' || (isSource && mayBeLast(whole?.fenceId, state))) continue;
    throw new AlreadyExists(
      isSource
        ? `volume ${id} is not finished: pool ${from} has its copy, and is not lost. The move goes on from there; if it has failed, order it again (holdfast move status ${id}).`
        : `volume ${id} is not finished: pool ${pool.name} of this node has a copy of it, which no move to pool ${to} has made. See holdfast volumes, and docs/move.md.`,
    );
  }
  const moves = movesOf(pools.get(to));
  const note = await moves.comingNote(id);
  const readUnder = note !== undefined && isOfMove(note, moveId) ? readUnderBy(note) : undefined;
  if (readUnder === undefined) {
    throw new FailedPrecondition(
      `volume ${id} has not come to pool ${to} as a whole: the part that is there can never become the volume.`,
    );
  }
  if (whole?.fenceId !== readUnder) {
    throw new FailedPrecondition(
      `volume ${id} has come to pool ${to} from a driver that is older, or this node has lost what it noted of it: nothing says which copies of the volume are later ones, so it never becomes the volume without its source. It stays, and the move goes on, if that comes back. If it is lost, take the volume from a backup; holdfast move cancel ${id}${job.node === undefined ? '' : ` --node-is-lost ${job.node} --even-so`} removes the part that has come.`,
    );
  }
  const { generation, record } = whole;
  const noted = await moves.noted(id);
  if (lost === undefined && noted.at !== undefined) throw goneOn(job, { here: noted.node, elsewhere: noted.at });
  requireSecondWord(isEvenSo, whyNotLatest(job, whole, noted));
  const arrival = await moves.recordFor(record);
  await using incoming = await moves.receive(arrival, moveId, true);
  // Not before that, which waits for a disk.
  requireInTime(id, lost?.deadline);
  const draft = { moveId, readUnder, fenceId: whole.fenceId, generation };
  await (isTrial === true ? incoming.requireFinishable(id, draft, lost) : incoming.finish(arrival, draft, lost));
}

/**
 * The reasons why a copy may not be the latest one, as far as its node knows.
 * @param noted by the node of the copy
 */
export function whyNotLatest(
  { from, id, node, to, ...job }: Pick<MoveJob, 'arrived' | 'from' | 'node' | 'to'> & { readonly id: string },
  { at, fenceEndedAt, generation }: Pick<WholeCopy, 'at' | 'fenceEndedAt' | 'generation'>,
  noted: Noted,
): string[] {
  const against: string[] = [];
  if (fenceEndedAt !== undefined) {
    const where = node === undefined ? `in pool ${from}` : `on node ${node}`;
    const then = at === undefined ? 'at a time that is not known' : `at ${at}`;
    against.push(
      `volume ${id} may have been used again ${where}, where its fence, or the move, had ended by ${fenceEndedAt}: the copy in pool ${to} is as it was ${then}, and has nothing that was written later.`,
    );
  }
  const arrivedAt = arrivalOf(job, { generation });
  if (arrivedAt !== undefined || wasCommitted(generation + 1, noted, node)) {
    const where = arrivedAt === undefined ? `to node ${noted.node} before` : `to pool ${to} at ${arrivedAt}`;
    against.push(
      `volume ${id} has come ${where}, as the node has noted on another disk: the copy in pool ${to} is as it was at the switch, and has nothing that was written later. Put the later disk back.`,
    );
  }
  if (node !== undefined && hasGivenUp(generation, noted, node)) {
    against.push(
      `volume ${id} may have been used again on node ${node}: node ${noted.node} has given the copy in pool ${to} up by an order to cancel, as it has noted on another disk, and that copy has nothing that was written later.`,
    );
  }
  return against;
}

/** The part that has come within the node is of a move before the volume went to another one, which may be lost. */
export function goneOn(
  { id, to }: MoveJob,
  { elsewhere, here }: { readonly elsewhere: string; readonly here: string },
): FailedPrecondition {
  return new FailedPrecondition(
    `volume ${id} has gone on to node ${elsewhere} since: what pool ${to} has of it is of a failed move before that, and an earlier state, which never becomes the volume. To remove it: kubectl holdfast move cancel ${id} --node ${here} --even-so. If node ${elsewhere} is lost, kubectl holdfast trash restore ${id} --node ${here} --node-is-lost ${elsewhere} has the copy of the time of the switch back after that.`,
  );
}
