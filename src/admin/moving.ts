import { type MovePlan, type Mover, type MoveSight, sightWithout } from '../move/mover.ts';
import { claimOf } from '../volume/claim.ts';
import { FailedPrecondition } from '../volume/errors.ts';
import type { VolumeId } from '../volume/id.ts';
import type { MoveList, Moving, PlannedMove, StartedMove } from './protocol.ts';
import type { AdminCall, VolumeOfLostNode } from './service.ts';

export interface MoveRequest {
  readonly id: VolumeId;
  readonly to: string;
  readonly limitBytesPerSecond?: bigint | undefined;
}

/** Plans a move. Nothing is changed. */
export async function planMove(
  mover: Mover | undefined,
  { id, to }: MoveRequest,
  call: AdminCall,
): Promise<PlannedMove> {
  call.note({ to });
  return showPlan(await requireMover(mover).plan(id, to));
}

/** Starts a move. It runs in the driver, whether its caller waits for it or not. */
export async function startMove(
  mover: Mover | undefined,
  { id, limitBytesPerSecond, to }: MoveRequest,
  call: AdminCall,
): Promise<StartedMove> {
  call.note({ to });
  const { plan, sight } = await requireMover(mover).start(id, to, limitBytesPerSecond);
  return { plan: showPlan(plan), move: showMove(sight) };
}

export async function cancelMove(
  mover: Mover | undefined,
  { id, lostNode }: VolumeOfLostNode,
  call: AdminCall,
): Promise<Moving> {
  const lost = lostNode === undefined ? undefined : { lostNode, deadline: call.deadline };
  const job = await requireMover(mover).cancel(id, lost);
  call.note({ pool: job.from, to: job.to });
  return showMove(sightWithout(job));
}

export async function listMoves(mover: Mover | undefined): Promise<MoveList> {
  const moves = (mover?.sights() ?? []).map(showMove);
  return { moves: moves.sort((a, b) => (a.startedAt < b.startedAt ? -1 : 1)) };
}

function requireMover(mover: Mover | undefined): Mover {
  if (mover !== undefined) return mover;
  throw new FailedPrecondition('every node of the cluster can reach the volumes of this driver: it moves none.');
}

export function showPlan({
  arrival,
  from,
  isCopiedInUse,
  isInUse,
  node,
  record,
  snapshots,
  to,
  usedBytes,
}: MovePlan): PlannedMove {
  return {
    ...{ id: record.id, name: record.name, claim: claimOf(record), from, to },
    ...(node !== undefined && { fromNode: node }),
    ...{ isInUse, isCopiedInUse, snapshots, provisioning: arrival.provisioning },
    sizeBytes: arrival.sizeBytes.toString(),
    usedBytes: usedBytes.toString(),
  };
}

export function showMove({ job, progress, trouble }: MoveSight): Moving {
  const { endedAt, from, id, node, reason = trouble, startedAt, state, to } = job;
  const other = node === undefined ? {} : to === '' ? { toNode: node } : { fromNode: node };
  const ended = { endedAt, ...(reason !== undefined && { reason }), ...other };
  if (progress === undefined) return { id, from, to, state, startedAt, ...ended };
  const { copiedBytes, doneBytes, phase, round, roundStartedMs, totalBytes } = progress;
  const seconds = (performance.now() - roundStartedMs) / 1000;
  return {
    ...{ id, from, to, state, startedAt, ...ended, phase, round },
    doneBytes: doneBytes.toString(),
    totalBytes: totalBytes.toString(),
    copiedBytes: copiedBytes.toString(),
    bytesPerSecond: seconds > 0 ? Math.round(Number(doneBytes) / seconds).toString() : '0',
  };
}
