import { join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { parseVolumeId, type SnapshotId, type VolumeId } from '../volume/id.ts';
import type { CopyMark, WholeDraft } from '../volume/move/rule.ts';
import { parseRecord, serializeRecord, type VolumeRecord } from '../volume/record.ts';
import { parseStored, storedBytes, storedSnapshotId, unreadable } from '../volume/stored-json.ts';
import { NoteFiles } from './note-files.ts';

export const jobStates = ['running', 'done', 'failed', 'cancelled'] as const;

/** A move that was ordered, on the node's own disk: the next start resumes it. */
export interface MoveJob {
  /** Random. */
  readonly moveId: string;
  readonly id: VolumeId;
  /** The pools; of a move to another node, `to` is empty. */
  readonly from: string;
  readonly to: string;
  /** The other node, if there is one: where it comes from, or goes to. */
  readonly node?: string | undefined;
  /** The controller's proof that it has brokered the move: it asks for that after a restart. */
  readonly ticket?: string | undefined;
  readonly limitBytesPerSecond?: bigint | undefined;
  /** RFC 3339, UTC. */
  readonly startedAt: string;
  readonly state: (typeof jobStates)[number];
  /** Set once it has ended. */
  readonly endedAt?: string | undefined;
  /** The copy of which all was read under a fence, as long as that is not the volume, or if it became that without its source. */
  readonly whole?: WholeCopy | undefined;
  /** Within a node: the volume was seen in the pool that it moves to. */
  readonly arrived?: Arrival | undefined;
  /** The reason why it failed. */
  readonly reason?: string | undefined;
  /** At the node that it leaves: the volume was deleted there. */
  readonly isDeleted?: true | undefined;
  /** Its snapshots follow it once it has moved. */
  readonly withSnapshots?: true | undefined;
  /** Set in the job of those. */
  readonly snapshots?: SnapshotsOfJob | undefined;
}

export interface Arrival {
  /** RFC 3339, UTC. */
  readonly at: string;
  /** The copy there had it: one that is handed over later, as an operator took that one back, has not arrived by it. */
  readonly generation: number;
}

/**
 * The time at which the volume was seen in its target, in a copy that came of this one, or of a later one; undefined: it was not.
 * @param given the mark of the copy that was handed over
 */
export function arrivalOf(
  { arrived }: Pick<MoveJob, 'arrived'>,
  given: Pick<CopyMark, 'generation'>,
): string | undefined {
  return arrived !== undefined && arrived.generation > given.generation ? arrived.at : undefined;
}

/** By this the copy can become the volume without its source, if that is lost (`finishDraft`). */
export interface WholeCopy extends Pick<WholeDraft, 'fenceId' | 'generation'> {
  readonly record: VolumeRecord;
  /** A time at which the fence stood: the copy is as the volume was then. RFC 3339, UTC. Earlier drivers did not note it. */
  readonly at?: string | undefined;
  /** The time at which the fence was seen to have ended: the volume may have changed since it ended. RFC 3339, UTC. */
  readonly fenceEndedAt?: string | undefined;
}

/** No snapshot of a volume, or none yet. */
export const noSnapshots: SnapshotsOfJob = { pools: [], moved: 0, left: [] };

/** The snapshots of a volume that follow it. */
export interface SnapshotsOfJob {
  /** The pools that had some. */
  readonly pools: readonly string[];
  readonly moved: number;
  /** The ones that have not moved, once the job has ended. */
  readonly left: readonly LeftSnapshot[];
  /** Counted when the first one began to move: those that have moved since are there no more. */
  readonly shares?: readonly NotedShare[] | undefined;
  /** The one on its way: from another node from before its copy begins until that node has heard of its end, else once all of it has come. */
  readonly coming?: ComingSnapshot | undefined;
  /** Copies of which all has come, and that are not the snapshot: each may be the last one. Orders before this one may have brought them. */
  readonly waiting?: readonly WaitingSnapshot[] | undefined;
  /** At the node that they leave: those that were removed there meanwhile. */
  readonly deleted?: readonly NamedSnapshot[] | undefined;
}

/** Another one may have been taken under its name at another time. */
export interface NamedSnapshot {
  readonly id: SnapshotId;
  readonly createdAt: string;
}

export interface ComingSnapshot extends NamedSnapshot {
  /** The pool that it leaves. Earlier drivers did not note it. */
  readonly pool?: string | undefined;
  /** All of it has come: it can be finished without its source. */
  readonly whole?: WholeSnapshot | undefined;
}

export interface WaitingSnapshot extends ComingSnapshot {
  readonly whole: WholeSnapshot;
  /** The node of the pool that it leaves; undefined: this one. */
  readonly node?: string | undefined;
  /** The pool that has the copy. */
  readonly to: string;
}

export interface WholeSnapshot {
  /** The fence under which all of it was read. */
  readonly moveId: string;
  readonly fenceId: string;
  /** The copy at its source has it. */
  readonly generation: number;
  /** Its text, as it is stored. */
  readonly record: string;
}

/** The space that a snapshot may take where it goes, at most, in bytes. */
export interface NotedShare {
  readonly id: SnapshotId;
  /** The time of the snapshot: another one may have been taken under its name. */
  readonly createdAt: string;
  readonly whole: string;
  readonly own: string;
  readonly beside?: SnapshotId | undefined;
}

/** A snapshot that is where it was, and can be used there; or a copy that waits. */
export interface LeftSnapshot {
  readonly id: string;
  readonly name: string;
  readonly pool: string;
  /** The node of that pool, if it is another one. */
  readonly node?: string | undefined;
  readonly reason: string;
  /** It does not move. */
  readonly stays: boolean;
  /** Set if it is a copy that waits: all of it has come from there. */
  readonly cameFrom?: Pick<WaitingSnapshot, 'node' | 'pool'> | undefined;
}

/** One order at a time for the move of a volume. The volume itself can be used meanwhile. */
export function turnOf(id: VolumeId): string {
  return `move of ${id}`;
}

/** The time for which the end of a move is reported. */
const rememberedMs = 7 * 86_400_000;

/** True if a move has ended so long ago that its end is reported no more. */
export function isLongPast(job: MoveJob): boolean {
  return job.state !== 'running' && !hasWaiting(job) && Date.now() - Date.parse(endOf(job)) > rememberedMs;
}

/** True if by its note a copy can still become the snapshot that its source has lost: it is not forgotten. */
export function hasWaiting({ snapshots }: MoveJob): boolean {
  return snapshots?.coming?.whole !== undefined || (snapshots?.waiting ?? []).length > 0;
}

/**
 * The number of moves whose end is remembered. Failed ones, which may have left something, are not counted, nor those that were finished
 * without their first pool: as long as such a one is known, the volume is not deleted while that pool is not open.
 */
const maxRemembered = 100;

/** The moves whose end is reported no more: it was long ago, or many others have ended since. */
export function forgettable<T extends MoveJob>(jobs: Iterable<T>): T[] {
  const ended = [...jobs].filter(({ state }) => state !== 'running');
  const many = ended
    .filter((job) => job.state !== 'failed' && job.whole === undefined && !hasWaiting(job))
    .sort((a, b) => (endOf(a) > endOf(b) ? -1 : 1))
    .slice(maxRemembered);
  return [...new Set([...ended.filter(isLongPast), ...many])];
}

function endOf({ endedAt, startedAt }: MoveJob): string {
  return endedAt ?? startedAt;
}

/** The job of a move that ends now. */
export function endedJob(job: MoveJob, state: Exclude<MoveJob['state'], 'running'>, reason?: string): MoveJob {
  return { ...job, state, endedAt: new Date().toISOString(), ...(reason !== undefined && { reason }) };
}

/** The time for which a volume stays fenced whose target is silent. */
export const defaultFenceTimeoutMs = 60_000;

const namedSnapshot = z.strictObject({ id: storedSnapshotId, createdAt: z.iso.datetime() });
const wholeSnapshot = z
  .strictObject({ moveId: z.string(), fenceId: z.string(), generation: z.int().nonnegative(), record: z.string() })
  .describe('all of it has come: it can be finished without its source');
const comingSnapshot = namedSnapshot.extend({ pool: z.string().optional(), whole: wholeSnapshot.optional() });
const waitingSnapshot = comingSnapshot.extend({ whole: wholeSnapshot, node: z.string().optional(), to: z.string() });

const storedJob = z.strictObject({
  format: z.literal(1),
  moveId: z.string(),
  id: z.string(),
  from: z.string(),
  to: z.string(),
  node: z.string().optional(),
  ticket: z.string().optional(),
  limitBytesPerSecond: z
    .string()
    .regex(/^[1-9][0-9]{0,18}$/)
    .optional(),
  startedAt: z.iso.datetime(),
  state: z.enum(jobStates),
  endedAt: z.iso.datetime().optional(),
  whole: z
    .strictObject({
      ...{ fenceId: z.string(), generation: z.int().nonnegative(), record: z.string() },
      ...{ at: z.iso.datetime().optional(), fenceEndedAt: z.iso.datetime().optional() },
    })
    .optional(),
  arrived: z.strictObject({ at: z.iso.datetime(), generation: z.int().nonnegative() }).optional(),
  reason: z.string().optional(),
  isDeleted: z.literal(true).optional(),
  withSnapshots: z.literal(true).optional(),
  snapshots: z
    .strictObject({
      pools: z.array(z.string()),
      moved: z.int().nonnegative(),
      left: z.array(
        z.strictObject({
          ...{ id: z.string(), name: z.string(), pool: z.string(), node: z.string().optional() },
          ...{ reason: z.string(), stays: z.boolean() },
          cameFrom: z.strictObject({ node: z.string().optional(), pool: z.string().optional() }).optional(),
        }),
      ),
      coming: comingSnapshot.optional(),
      waiting: z.array(waitingSnapshot).optional(),
      deleted: z.array(namedSnapshot).optional(),
      shares: z
        .array(
          z.strictObject({
            ...{ id: storedSnapshotId, createdAt: z.string(), whole: storedBytes, own: storedBytes },
            beside: storedSnapshotId.optional(),
          }),
        )
        .optional(),
    })
    .optional(),
});

/** The moves of a node, one for each volume. */
export class MoveJobs {
  readonly #files: NoteFiles<MoveJob>;

  /** @param name of the directory */
  constructor(
    dataDirectory: string,
    queue: DiskQueue,
    name: 'leaving' | 'leaving-snapshots' | 'moves' | 'snapshot-moves' = 'moves',
  ) {
    this.#files = new NoteFiles(join(dataDirectory, name), queue, parseJob);
  }

  async read(): Promise<{ readonly jobs: readonly MoveJob[]; readonly problems: readonly unknown[] }> {
    const { notes, problems } = await this.#files.read();
    return { jobs: [...notes.values()], problems };
  }

  async write({ limitBytesPerSecond, whole, ...job }: MoveJob): Promise<void> {
    const limit = limitBytesPerSecond === undefined ? {} : { limitBytesPerSecond: limitBytesPerSecond.toString() };
    const wholeOut = whole && { ...whole, record: serializeRecord(whole.record) };
    await this.#files.write(job.id, JSON.stringify({ format: 1, ...job, ...limit, whole: wholeOut }));
  }

  async forget(id: VolumeId): Promise<void> {
    await this.#files.remove(id);
  }
}

function parseJob(text: string, where: string): MoveJob {
  const { format: _format, id: idText, limitBytesPerSecond, whole, ...job } = parseStored(storedJob, text, where);
  const id = parseVolumeId(idText);
  if (id === undefined) throw unreadable(where, 'its id has the wrong shape');
  return {
    ...{ ...job, id },
    ...(limitBytesPerSecond !== undefined && { limitBytesPerSecond: BigInt(limitBytesPerSecond) }),
    ...(whole !== undefined && { whole: { ...whole, record: parseRecord(whole.record, where) } }),
  };
}
