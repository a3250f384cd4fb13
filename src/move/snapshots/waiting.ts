import { silentAfterMs } from '../../pool/condition.ts';
import type { Pools } from '../../pool/pools.ts';
import { withTimeout } from '../../volume/flow/with-timeout.ts';
import type { VolumeId } from '../../volume/id.ts';
import { parseSnapshot } from '../../volume/snapshot-record.ts';
import type { LeftSnapshot, NamedSnapshot, WaitingSnapshot } from '../job.ts';
import { mayBeWhole } from './snapshot-move.ts';
import type { SnapshotsJob } from './snapshot-mover.ts';

/** The copies that may wait, by the notes of these orders. The one on its way is among them, once all of it has come. */
export function waitingIn(...jobs: readonly (SnapshotsJob | undefined)[]): WaitingSnapshot[] {
  const found: WaitingSnapshot[] = [];
  for (const { node, snapshots, to } of jobs.flatMap((job) => job ?? [])) {
    const { coming, waiting = [] } = snapshots;
    const last = coming?.whole === undefined ? [] : [{ ...coming, whole: coming.whole, node, to }];
    for (const each of [...last, ...waiting]) if (!found.some((other) => isSame(other, each))) found.push(each);
  }
  return found;
}

function isSame(a: WaitingSnapshot, b: WaitingSnapshot): boolean {
  return a.to === b.to && isOfSnapshot(a, b);
}

/** Another one may have been taken under its name. */
export function isOfSnapshot(named: NamedSnapshot, { createdAt, id }: NamedSnapshot): boolean {
  return named.id === id && named.createdAt === createdAt;
}

/** Keeps the ones whose copy is there, or may be, as its pool is not open, and of which no pool of this node has the snapshot. */
export async function stillWaiting(pools: Pools, named: readonly WaitingSnapshot[]): Promise<WaitingSnapshot[]> {
  const waits = await Promise.all(named.map((each) => isWaiting(pools, each)));
  return named.filter((_each, at) => waits[at]);
}

async function isWaiting(pools: Pools, { createdAt, id, to }: WaitingSnapshot): Promise<boolean> {
  for (const { moves } of pools.all()) {
    if (moves?.snapshots.find(id)?.createdAt === createdAt && !moves.snapshots.isLeft(id)) return false;
  }
  const moves = pools.isOpen(to) ? pools.get(to).moves : undefined;
  if (moves === undefined) return true;
  try {
    const noted = await withTimeout(silentAfterMs, moves.snapshots.notedOf(id));
    return noted === 'late' || mayBeWhole(noted);
  } catch {
    return true;
  }
}

/** The copy as a user sees it, and what makes it the snapshot. */
export function shownWaiting(volumeId: VolumeId, copy: WaitingSnapshot): LeftSnapshot {
  const { id, node, pool, to, whole } = copy;
  const { name } = parseSnapshot(whole.record, `of snapshot ${id}, which waits in pool ${to}`);
  return { id, name, pool: to, reason: whyWaits(volumeId, copy), stays: true, cameFrom: { node, pool } };
}

function whyWaits(volumeId: VolumeId, { node, pool }: WaitingSnapshot): string {
  if (node !== undefined) {
    return `all of it has come from node ${node}, which is lost, or has no copy of it that is the snapshot, as far as is known: this may be the last copy, and stays. It becomes the snapshot once node ${node} is forgotten (kubectl holdfast forget-node ${node}), by: kubectl holdfast move finish ${volumeId} --node-is-lost ${node}, with this node as --node. DeleteSnapshot removes it.`;
  }
  return `all of it has come from pool ${pool}, which is not in the configuration, or has no copy of it that is the snapshot: this may be the last copy, and stays. Put pool ${pool} and its disk back, and order the same move again; if it is lost, this copy becomes the snapshot: holdfast move finish ${volumeId} --pool-is-lost ${pool}. DeleteSnapshot removes it.`;
}
