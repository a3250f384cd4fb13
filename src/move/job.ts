import { mkdir, readdir, readFile, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import type { DiskQueue } from '../kernel/call/disk-queue.ts';
import { ignoreMissing } from '../kernel/call/errno.ts';
import { DirectorySync } from '../kernel/file/file.ts';
import { replaceFile } from '../pool/records/durable-file.ts';
import { parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../volume/id.ts';
import { parseStored, unreadable } from '../volume/stored-json.ts';

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
  /** The reason why it failed. */
  readonly reason?: string | undefined;
  /** Its snapshots follow it once it has moved. */
  readonly withSnapshots?: true | undefined;
  /** Set in the job of those. */
  readonly snapshots?: SnapshotsOfJob | undefined;
}

/** The snapshots of a volume that follow it. */
export interface SnapshotsOfJob {
  /** The pools that had some. */
  readonly pools: readonly string[];
  readonly moved: number;
  /** The ones that have not moved, once the job has ended. */
  readonly left: readonly LeftSnapshot[];
  /** Counted when the first one began to move: those that have moved since are there no more. */
  readonly shares?: readonly NotedShare[] | undefined;
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

/** A snapshot that is where it was, and can be used there. */
export interface LeftSnapshot {
  readonly id: string;
  readonly name: string;
  readonly pool: string;
  readonly reason: string;
  /** It never moves. */
  readonly stays: boolean;
}

/** The time for which the end of a move is reported. */
const rememberedMs = 7 * 86_400_000;

/** True if a move has ended so long ago that its end is reported no more. */
export function isLongPast({ endedAt, startedAt, state }: MoveJob): boolean {
  return state !== 'running' && Date.now() - Date.parse(endedAt ?? startedAt) > rememberedMs;
}

/** The job of a move that ends now. */
export function endedJob(job: MoveJob, state: Exclude<MoveJob['state'], 'running'>, reason?: string): MoveJob {
  return { ...job, state, endedAt: new Date().toISOString(), ...(reason !== undefined && { reason }) };
}

/** The time for which a volume stays fenced whose target is silent. */
export const defaultFenceTimeoutMs = 60_000;

const bytes = z.string().regex(/^[0-9]{1,19}$/);
const snapshotId = z.string().transform((text, context) => {
  const id = parseSnapshotId(text);
  if (id !== undefined) return id;
  context.addIssue('it is no id of a snapshot');
  return z.NEVER;
});

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
  reason: z.string().optional(),
  withSnapshots: z.literal(true).optional(),
  snapshots: z
    .strictObject({
      pools: z.array(z.string()),
      moved: z.int().nonnegative(),
      left: z.array(
        z.strictObject({ id: z.string(), name: z.string(), pool: z.string(), reason: z.string(), stays: z.boolean() }),
      ),
      shares: z
        .array(
          z.strictObject({
            ...{ id: snapshotId, createdAt: z.string(), whole: bytes, own: bytes },
            beside: snapshotId.optional(),
          }),
        )
        .optional(),
    })
    .optional(),
});

/** The moves of a node, one for each volume: a file each, in a directory of the driver. */
export class MoveJobs {
  readonly #directory: string;
  readonly #queue: DiskQueue;
  readonly #syncs = new DirectorySync();

  /** @param name of the directory */
  constructor(dataDirectory: string, queue: DiskQueue, name: 'leaving' | 'moves' | 'snapshot-moves' = 'moves') {
    this.#directory = join(dataDirectory, name);
    this.#queue = queue;
  }

  async read(): Promise<{ readonly jobs: MoveJob[]; readonly problems: unknown[] }> {
    const names = (await this.#queue.run(() => readdir(this.#directory)).catch(ignoreMissing)) ?? [];
    const jobs: MoveJob[] = [];
    const problems: unknown[] = [];
    for (const name of names.filter((each) => each.endsWith('.json'))) {
      try {
        const path = join(this.#directory, name);
        jobs.push(parseJob(await this.#queue.run(() => readFile(path, 'utf8')), path));
      } catch (error) {
        problems.push(error);
      }
    }
    return { jobs, problems };
  }

  async write({ limitBytesPerSecond, ...job }: MoveJob): Promise<void> {
    await this.#queue.run(() => mkdir(this.#directory, { mode: 0o700, recursive: true }));
    await this.#syncs.sync(this.#queue, dirname(this.#directory));
    const limit = limitBytesPerSecond === undefined ? {} : { limitBytesPerSecond: limitBytesPerSecond.toString() };
    const text = JSON.stringify({ format: 1, ...job, ...limit });
    await replaceFile(this.#queue, this.#syncs, join(this.#directory, `${job.id}.json`), text);
  }

  async forget(id: VolumeId): Promise<void> {
    await this.#queue.run(() => unlink(join(this.#directory, `${id}.json`))).catch(ignoreMissing);
  }
}

function parseJob(text: string, where: string): MoveJob {
  const { format: _format, id: idText, limitBytesPerSecond, ...job } = parseStored(storedJob, text, where);
  const id = parseVolumeId(idText);
  if (id === undefined) throw unreadable(where, 'its id has the wrong shape');
  return { ...job, id, ...(limitBytesPerSecond !== undefined && { limitBytesPerSecond: BigInt(limitBytesPerSecond) }) };
}
