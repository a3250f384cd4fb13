import type { PoolLog } from '../../pool/log.ts';
import type { Pool } from '../../pool/pool.ts';
import type { ObjectQueue } from '../../volume/flow/object-queue.ts';
import { isVolume } from '../../volume/move/rule.ts';
import type { NamedSnapshot } from '../job.ts';
import { movesOf, patiently } from '../source.ts';
import type { OtherNode } from './held.ts';
import { hasAllData } from './survivor.ts';

export interface TakenBackParts {
  /** The node that the snapshot came from, which has ended the move. */
  readonly from: OtherNode;
  /** The pool that it came to. */
  readonly to: Pool;
  readonly objects: ObjectQueue;
  readonly log: PoolLog;
  readonly signal: AbortSignal;
}

/**
 * While this node was taken for lost, its source may have taken a snapshot back that has arrived here, and that it had not heard of: the
 * copy here is an earlier one then, and goes. It stays if the one there has lost data. If that was deleted since, this one is, too.
 * @throws Unavailable while the source does not answer
 */
export async function outdateTakenBack(
  { from, log, objects, signal, to }: TakenBackParts,
  { createdAt, id }: NamedSnapshot,
): Promise<void> {
  await patiently({ objects, signal }, [id], async () => {
    const there = await from.look(id, createdAt);
    if (there === undefined) {
      if (await from.wasDeleted(id, createdAt)) await removeDeleted(to, { id, createdAt });
      return;
    }
    if (there.why !== undefined && there.why !== 'closed') return;
    if (!(await hasAllData({ verified: () => from.verified(id, createdAt) }))) {
      const facts = { snapshot_id: id, node: from.node, pool: to.name };
      return log.error(facts, 'a node has taken a snapshot back, and has not all of its data: the copy here stays');
    }
    const { generation } = there.mark;
    await movesOf(to).snapshots.outdate(id, { createdAt, generation, node: from.node });
  });
}

/**
 * The snapshot was deleted on the node that it came from: no copy of it stays here, and the note of that is durable, as this disk may come
 * back as it is now. The caller has claimed it.
 */
export async function removeDeleted(pool: Pool, { createdAt, id }: NamedSnapshot): Promise<void> {
  const { snapshots } = movesOf(pool);
  if ((await snapshots.settled(id))?.createdAt === createdAt) {
    if (isVolume(await snapshots.stateOf(id))) await pool.removeSnapshot(id);
    else await snapshots.removeLeft(id);
  }
  await snapshots.discard(id);
}
