import { deadlineOf } from '../move/in-time.ts';
import { arrivalOf, type MoveJob } from '../move/job.ts';
import { type Mover, type MoveSight, sightWithout } from '../move/mover.ts';
import type { MovePlan } from '../move/planner.ts';
import { isOfSnapshots, type SnapshotsSight } from '../move/snapshots/snapshot-mover.ts';
import { shownWaiting } from '../move/snapshots/waiting.ts';
import { claimOf } from '../volume/claim.ts';
import { FailedPrecondition, InvalidArgument } from '../volume/errors.ts';
import { withTimeout } from '../volume/flow/with-timeout.ts';
import type { VolumeId } from '../volume/id.ts';
import { lostEndIn } from './lost-node.ts';
import type { MoveList, Moving, MovingSnapshots, PlannedMove, StartedMove } from './protocol.ts';
import type { AdminCall, CancelOrder, FinishOrder } from './service.ts';

/** A disk that hangs keeps no list back. */
const silentMs = 2_000;

export interface MoveRequest {
  readonly id: VolumeId;
  readonly to: string;
  readonly limitBytesPerSecond?: bigint | undefined;
  readonly withSnapshots?: boolean | undefined;
}

/** Plans a move. Nothing is changed. */
export async function planMove(
  mover: Mover | undefined,
  { id, to, withSnapshots }: MoveRequest,
  call: AdminCall,
): Promise<PlannedMove> {
  call.note({ to });
  return showPlan(await requireMover(mover).plan(id, to, withSnapshots));
}

/** Starts a move. It runs in the driver, whether its caller waits for it or not. */
export async function startMove(
  mover: Mover | undefined,
  { id, limitBytesPerSecond, to, withSnapshots }: MoveRequest,
  call: AdminCall,
): Promise<StartedMove> {
  call.note({ to });
  const { plan, sight } = await requireMover(mover).start(id, to, limitBytesPerSecond, withSnapshots);
  return { plan: showPlan(plan), move: showMove(sight) };
}

export async function cancelMove(
  mover: Mover | undefined,
  { disclaimed, evenSo, id, isComing, isTrial = false, laterThan, lostNode, words }: CancelOrder,
  call: AdminCall,
): Promise<Moving> {
  const deadline = deadlineOf(call.deadline);
  const lost = lostNode === undefined ? undefined : { lostNode, isComing, disclaimed, laterThan, words, deadline };
  if (isTrial) {
    // A trial is for an order that makes a copy the volume again which went to another node.
    if (lost === undefined) throw new InvalidArgument('A cancel is tried only for a node that gives its copies up.');
    return showEnded(await requireMover(mover).requireCancellable(id, lost, evenSo));
  }
  const job = await requireMover(mover).cancel(id, lost, deadline, evenSo);
  call.note({ pool: job.from, to: job.to });
  const { isUncommitted, isUnseen } = job;
  return { ...showEnded(job), ...(isUncommitted && { isUncommitted }), ...(isUnseen && { isUnseen }) };
}

/** Makes the copy of a volume that is moving here the volume, as its source is lost. */
export async function finishMove(
  mover: Mover | undefined,
  { disclaimed, evenSo, id, isTrial, laterThan, words, ...named }: FinishOrder,
  call: AdminCall,
): Promise<Moving> {
  const lost = lostEndIn(named);
  if (lost === undefined) {
    throw new InvalidArgument('say which is lost: --pool-is-lost POOL, or --node-is-lost NODE.');
  }
  const deadline = deadlineOf(call.deadline);
  const order = 'lostPool' in lost ? lost : { ...lost, disclaimed, laterThan, words, deadline };
  const job = await requireMover(mover).finish(id, order, evenSo, isTrial);
  call.note({ pool: job.from, to: job.to });
  return showEnded(job);
}

/** A move of a volume, or of its snapshots, that an order has changed. */
export function showEnded(job: MoveJob): Moving {
  const sight = sightWithout(job);
  const ended = { progress: undefined, trouble: undefined, isUnconnected: false };
  return showMove(isOfSnapshots(job) ? { ...sight, snapshots: { ...ended, job } } : sight);
}

export async function listMoves(mover: Mover | undefined): Promise<MoveList> {
  const moves = await Promise.all((mover?.sights() ?? []).map((sight) => showWithRest(mover, sight)));
  return { moves: moves.sort((a, b) => (a.startedAt < b.startedAt ? -1 : 1)) };
}

async function showWithRest(mover: Mover | undefined, sight: MoveSight): Promise<Moving> {
  const leftBytes = await withTimeout(silentMs, Promise.resolve(mover?.leftBytes(sight.job)));
  const isKnown = leftBytes !== undefined && leftBytes !== 'late';
  return { ...showMove(sight), ...(isKnown && { leftBytes: leftBytes.toString() }) };
}

function requireMover(mover: Mover | undefined): Mover {
  if (mover !== undefined) return mover;
  throw new FailedPrecondition('every node of the cluster can reach the volumes of this driver: it moves none.');
}

export function showPlan({
  arrival,
  following,
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
    sizeNowBytes: record.sizeBytes.toString(),
    usedBytes: usedBytes.toString(),
    ...(following !== undefined && {
      following: {
        moving: following.moving.map(({ pool, record: { id, name } }) => ({ id, name, pool })),
        staying: [...following.staying],
        neededBytes: following.neededBytes.toString(),
      },
    }),
  };
}

function showSnapshots({ job, progress, trouble }: SnapshotsSight): MovingSnapshots {
  const { id, reason = trouble, snapshots, state, to } = job;
  const { left, moved, waiting = [] } = snapshots;
  const waits = waiting.map((each) => shownWaiting(id, each));
  const common = { state, to, moved, left: [...left, ...waits], ...(reason !== undefined && { reason }) };
  if (progress === undefined) return common;
  const { current, doneBytes, total, totalBytes } = progress;
  if (current === undefined) return { ...common, total };
  return { ...common, total, current, doneBytes: doneBytes.toString(), totalBytes: totalBytes.toString() };
}

export function showMove({ job, progress, snapshots, trouble }: MoveSight): Moving {
  const { arrived, endedAt, from, id, node, reason = trouble, startedAt, state, to, whole } = job;
  const other = node === undefined ? {} : to === '' ? { toNode: node } : { fromNode: node };
  const followed = snapshots === undefined ? {} : { snapshots: showSnapshots(snapshots) };
  const copy = whole && {
    ...{ name: whole.record.name, claim: claimOf(whole.record) },
    ...{ asOf: whole.at, usableSince: whole.fenceEndedAt },
    copyOf: { generation: whole.generation, createdAt: whole.record.createdAt },
  };
  // Another copy may have been handed over since.
  const hasArrived = whole === undefined ? arrived !== undefined : arrivalOf(job, whole) !== undefined;
  const come = hasArrived && state !== 'done' ? { arrived } : {};
  const ended = { endedAt, ...copy, ...come, ...(reason !== undefined && { reason }), ...other, ...followed };
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
