import type { Mover } from '../move/mover.ts';
import { requireSecondWord } from '../move/second-word.ts';
import type { Pool } from '../pool/pool.ts';
import type { Pools } from '../pool/pools.ts';
import { FailedPrecondition } from '../volume/errors.ts';
import type { VolumeId } from '../volume/id.ts';
import { type CopyMark, type Noted, unmarked } from '../volume/move/rule.ts';

/** A copy that its volume has left by a move, and that an operator wants back. */
export interface LeftHere {
  readonly id: VolumeId;
  readonly pool: Pool;
  readonly mark: CopyMark | undefined;
  /** When it went to the trash; undefined: it is not there any more, as an order before this one has taken it out. */
  readonly deletedAt?: string | undefined;
}

/** The words of the operator. */
export interface LeftWords {
  /** The pool that the volume has moved to, whose disk is lost. */
  readonly lostPool?: string | undefined;
  readonly evenSo?: boolean | undefined;
}

/**
 * Before a copy that its volume has left for another pool of this node becomes the volume: it lacks all that was written since, so it never
 * does by a plain order. All pools that are in the configuration are open, and none has the volume, or a later copy in its trash.
 * @throws FailedPrecondition: the word that it takes
 */
export async function requireWord(
  { mover, pools }: { readonly mover: Pick<Mover, 'lastPoolOf'> | undefined; readonly pools: Pools },
  { id, mark, pool, ...copy }: LeftHere,
  { evenSo = false, lostPool }: LeftWords,
): Promise<void> {
  const { at, generation = 0 } = (await pool.moves?.noted(id)) ?? {};
  // Another node has it.
  if (at !== undefined) return;
  const left = { id, mark, pool, ...copy };
  const isAway = (name: string) => !pools.names().includes(name);
  const to = mover?.lastPoolOf(id);
  // The note goes with the volume: it was deleted where it went, unless the notes are lost.
  const mayBeElsewhere = generation > 0 || (to !== undefined && isAway(to));
  if (mayBeElsewhere && !(lostPool !== undefined && (to === undefined || lostPool === to))) {
    const title = to === undefined ? 'another pool of this node, maybe by way of another node,' : `pool ${to}`;
    const why = to !== undefined && !isAway(to) ? 'has it no more' : 'is not in the configuration';
    throw new FailedPrecondition(
      `volume ${id} has moved to ${title} since this copy of it in pool ${pool.name}, and that ${why}: its disk may have the volume in another node, or a later copy in its trash. ${asOf(left)} If the disk is lost: --pool-is-lost ${to ?? 'POOL'}.`,
    );
  }
  const against = whyMovedOn(id, mark ?? unmarked, { generation });
  // A pool that the volume did not move to last has nothing to do with it.
  const isSaid = lostPool !== undefined && to === undefined && isAway(lostPool);
  if (against.length === 0 && !mayBeElsewhere && !isSaid) {
    against.push(
      `volume ${id} has moved since this copy of it in pool ${pool.name}, and was deleted then: no pool that is in the configuration has a later one.`,
    );
  }
  requireSecondWord(
    evenSo,
    against.map((why) => `${why} ${asOf(left)}`),
  );
}

/** The reason against a copy in the trash that its volume has left for another pool of its node, and not the last one. */
export function whyMovedOn(
  id: string,
  left: Pick<CopyMark, 'generation'>,
  { at, generation }: Pick<Noted, 'at' | 'generation'>,
): string[] {
  if (at !== undefined || generation <= left.generation + 1) return [];
  return [
    `volume ${id} has moved more than once since this copy of it in the trash: a later one may lie in a pool that is not in the configuration, or on a disk that is not in its node. Put that back, and restore that one.`,
  ];
}

/** The time of the state that a left copy has, as far as that is known. */
export function asOf({ deletedAt, mark, pool }: Pick<LeftHere, 'deletedAt' | 'mark' | 'pool'>): string {
  const isSwitch = mark?.fence?.isGiven === true;
  const then = isSwitch ? `when it moved out of pool ${pool.name}` : 'before it moved, at a time that is not known';
  const until = deletedAt === undefined || !isSwitch ? '' : `, by ${deletedAt}`;
  return `This copy is as the volume was ${then}${until}: it has nothing that was written later.`;
}
