import { Unavailable } from '../volume/errors.ts';
import { kindOf, type SnapshotId, type VolumeId } from '../volume/id.ts';
import type { LostNode } from '../volume/move/rule.ts';

/** An operator says that the other node of a move is lost. */
export interface LostOrder extends LostNode {
  /** True: only a move that comes from that node is ended. No copy becomes the volume by that, so nothing has to be noted elsewhere. */
  readonly isComing?: boolean | undefined;
  /** After that nothing is taken back, and nothing removed. */
  readonly deadline?: Deadline | undefined;
}

/** The time until which the caller of an order waits. */
export interface Deadline {
  readonly at: Date;
  /** The same by a clock that is never set: one that is put back makes no late order come in time. */
  readonly endMs: number;
}

export function deadlineOf(at: Date | undefined): Deadline | undefined {
  return at && { at, endMs: performance.now() + (at.getTime() - Date.now()) };
}

/** @returns the earlier one of a deadline and the end of that time from now */
export function deadlineWithin(timeMs: number, deadline?: Deadline): Deadline {
  const own = { at: new Date(Date.now() + timeMs), endMs: performance.now() + timeMs };
  return deadline !== undefined && deadline.endMs < own.endMs ? deadline : own;
}

/** Ends calls at the deadline, with that error. */
export function endingBy({ endMs }: Deadline, error: () => Error): AbortSignal {
  const ending = new AbortController();
  setTimeout(() => ending.abort(error()), Math.max(0, endMs - performance.now())).unref();
  return ending.signal;
}

/** An operator says that a pool of this node is lost, which the volume leaves. */
export interface LostPool {
  readonly lostPool: string;
}

/**
 * Refuses an order that its caller waits for no more. By then the controller may have let another node take the volume back.
 * @throws Unavailable
 */
export function requireInTime(id: SnapshotId | VolumeId, deadline: Deadline | undefined): void {
  if (!isLate(deadline)) return;
  throw new Unavailable(`${kindOf(id)} ${id} was not taken back in time, and is as it was: try again.`);
}

/** True if the caller of an order waits for it no more. */
export function isLate(deadline: Deadline | undefined): boolean {
  return deadline !== undefined && (performance.now() >= deadline.endMs || Date.now() >= deadline.at.getTime());
}
