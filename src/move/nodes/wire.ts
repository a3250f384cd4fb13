import { z } from 'zod';
import { parseMark, serializeMark } from '../../pool/catalog/move-mark.ts';
import type { Closed } from '../../pool/moves.ts';
import { errorCodes, errorOfCode, HoldfastError, InvalidArgument, Unavailable } from '../../volume/errors.ts';
import { inOneSentence, parseJsonInput } from '../../volume/parse-input.ts';
import { parseRecord, serializeRecord, type VolumeRecord } from '../../volume/record.ts';
import { storedBytes, storedSnapshotId } from '../../volume/stored-json.ts';
import type { Piece } from '../copy.ts';
import {
  type LeftAtSource,
  MoveEnded,
  MoveForgotten,
  NotConnected,
  PoolAway,
  type Reading,
  SourceFull,
  type SourcePlan,
  type SourceSight,
} from '../source.ts';
import { OtherTree, placeDigest, type TreePlace } from '../tree/progress.ts';

/*
 * The messages of two nodes in a move: requests of the target, JSON over HTTPS, at
 * /v1/moves/MOVE/VOLUME/OPERATION. Fields are added, never changed or removed. `read` is a GET that asks for an upgrade, with
 * its request in the query; the connection carries frames then, and nothing else. Who is not let in has an ordinary answer, 403.
 */

/** Operations for snapshots, which have a separate admission. */
export const snapshotOperations = [
  'snapshots-begin',
  'snapshots-end',
  'snapshots',
  'snapshot-look',
  'snapshot-share',
  'snapshot-close',
  'snapshot-open',
  'read-snapshot',
  'snapshot-give',
  'snapshot-settle',
  'snapshot-take-back',
] as const;
export type SnapshotOperation = (typeof snapshotOperations)[number];

export const operations = [
  'look',
  'describe',
  'has-snapshot',
  'take-snapshot',
  'remove-snapshot',
  'remove-snapshots',
  'close',
  'open',
  'read',
  'give',
  'settle',
  'take-back',
  ...snapshotOperations,
] as const;
export type Operation = (typeof operations)[number];

/** The ones that answer with a stream of frames. */
export const readOperations = ['read', 'read-snapshot'] as const satisfies Operation[];
export type ReadOperation = (typeof readOperations)[number];

/**
 * The connections that a node has to another one, at most: for the moves that read it at a time, for other calls, and for calls that wait
 * there for a while.
 */
export const connectionsEach = { reads: 24, calls: 24, waits: 16 } as const;

/** The longest request, and the longest answer that is no stream: a record with its parameters. */
export const longestBodyBytes = 64 * 1024;

/** Another name, if what follows changes: the frames, what pieces mean (`tree/records.ts`), or how a copy that was cut short goes on. */
export const upgradeTo = 'holdfast-frames-2';
/** The answer before the first frame, byte by byte. */
export const switchingProtocols = Buffer.from(
  `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${upgradeTo}\r\n\r\n`,
);

/** A source that says nothing for this time is not there. A pool may take its time over a snapshot. */
export const silentMs = 60_000;

export function lost(title: string, error: unknown): NotConnected {
  return new NotConnected(`${title} cannot be reached (${error instanceof Error ? error.message : 'unknown'}).`);
}

/** The time for which a source waits at most before it answers `look`. */
export const longestLookMs = 10_000;

const bytes = storedBytes.transform(BigInt);
const unusable = z.enum(['old', 'given', 'closed']);
const sight = {
  record: z.string(),
  mark: z.string(),
  why: unusable.optional(),
  isUsed: z.boolean(),
  hasChanges: z.boolean(),
};

const mark = { mark: z.string(), why: unusable.optional() };
const heldSnapshot = z.object({
  ...{ record: z.string(), pool: z.string().max(63), whyStays: z.string().max(1024).optional() },
  hasChanges: z.boolean(),
});
/** Another snapshot may have been taken under its name. */
const named = { snapshot: storedSnapshotId, createdAt: z.iso.datetime() };

export const asked = {
  /** The other node removes all that has come, if the copy here has all of its data. */
  look: z.object({ idleWithinMs: z.int().min(0).max(longestLookMs).optional(), isVerified: z.boolean().optional() }),
  snapshot: z.object({ snapshot: storedSnapshotId }),
  close: z.object({ fenceId: z.string().min(1).max(64) }),
  read: z.object({
    ...{ base: storedSnapshotId.optional(), target: storedSnapshotId.optional(), fromBytes: bytes },
    ...{ placeDigest: placeDigest.optional(), placeFileBytes: bytes.optional() },
  }),
  generation: z.object({ generation: z.int().positive() }),
  snapshots: z.object({ after: storedSnapshotId.optional() }),
  snapshotsEnd: z.object({ state: z.enum(['cancelled', 'done']) }),
  copy: z.object(named),
  /** The other node removes its copy, if this one has all of its data. */
  snapshotLook: z.object({ ...named, isVerified: z.boolean().optional() }),
  share: z.object({ ...named, beside: storedSnapshotId.optional(), unitBytes: bytes }),
  snapshotClose: z.object({ ...named, to: z.string().min(1).max(63) }),
  readSnapshot: z.object({ ...named, fenceId: z.string().min(1).max(64), fromBytes: bytes }),
  give: z.object({ ...named, moveId: z.string().min(1).max(128), fenceId: z.string().min(1).max(64) }),
  arrived: z.object({ ...named, generation: z.int().positive() }),
} as const;

export const told = {
  sight: z.object({ sight: z.object(sight).optional() }),
  plan: z.object({
    plan: z.object({ ...sight, pool: z.string(), usedBytes: bytes, snapshots: z.number() }).optional(),
  }),
  hasSnapshot: z.object({ isThere: z.boolean() }),
  closed: z.object({
    closed: z
      .object({ record: z.string(), fenceId: z.string(), generation: z.int().nonnegative().optional() })
      .optional(),
  }),
  answer: z.object({ moveId: z.string(), fenceId: z.string(), generation: z.int().positive() }),
  reading: z.object({ record: z.string(), endBytes: bytes, totalBytes: bytes }),
  done: z.object({}),
  snapshots: z.object({ snapshots: z.array(heldSnapshot), isLast: z.boolean() }),
  copy: z.object({ copy: z.object(mark).optional(), isDeleted: z.boolean().optional() }),
  share: z.object({ wholeBytes: bytes, ownBytes: bytes }),
  fence: z.object({
    ...{ moveId: z.string().min(1).max(128), fenceId: z.string().min(1).max(64), isGiven: z.boolean() },
    to: z.string(),
  }),
  settled: z.object({ isSettled: z.boolean() }),
  snapshotReading: z.object({ endBytes: bytes, totalBytes: bytes }),
  refusal: z.object({
    code: z.enum(errorCodes),
    message: z.string(),
    reason: z.enum(['ended', 'forgotten', 'full', 'not-admitted', 'other-tree', 'pool-away']).optional(),
    left: z.object({ copy: z.object(mark).optional(), isDeleted: z.boolean() }).optional(),
  }),
} as const;

/** @throws InvalidArgument */
export function parsed<T>(schema: z.ZodType<T>, body: string): T {
  const result = parseJsonInput(schema, body);
  if ('data' in result) return result.data;
  throw new InvalidArgument(`the request cannot be read: ${inOneSentence(result.mistakes)}.`);
}

const where = 'that the other node has sent';

export function sightOut({ hasChanges, isUsed, record, state }: SourceSight) {
  return { record: serializeRecord(record), mark: serializeMark(state.mark), why: state.why, isUsed, hasChanges };
}

export function sightIn({ hasChanges, isUsed, mark, record, why }: z.infer<z.ZodObject<typeof sight>>): SourceSight {
  return { record: recordIn(record), state: { mark: parseMark(mark, where), why }, isUsed, hasChanges };
}

export function planOut(plan: SourcePlan) {
  const { pool, snapshots, usedBytes } = plan;
  return { ...sightOut(plan), pool, snapshots, usedBytes: usedBytes.toString() };
}

export function readingOut({ endBytes, record, totalBytes }: Pick<Reading, 'endBytes' | 'record' | 'totalBytes'>) {
  return { record: serializeRecord(record), endBytes: endBytes.toString(), totalBytes: totalBytes.toString() };
}

export function placeOut(place: TreePlace | undefined) {
  return { placeDigest: place?.digest.toString('hex'), placeFileBytes: place?.fileBytes?.toString() };
}

export function closedOut({ record, ...closed }: Closed) {
  return { ...closed, record: serializeRecord(record) };
}

export function closedIn({ record, ...closed }: Omit<Closed, 'record'> & { readonly record: string }): Closed {
  return { ...closed, record: recordIn(record) };
}

/** The record that another node has sent. The volume is published to no node here: it was there, and can be used there no more. */
export function recordIn(text: string): VolumeRecord {
  const { otherPublications: _others, publication: _publication, ...record } = parseRecord(text, where);
  return record;
}

/** The source lets no such move in: the controller has to admit it, again after a restart. */
export class NotAdmitted extends Unavailable {}

export function refusalOf(error: unknown): z.infer<typeof told.refusal> {
  if (error instanceof SourceFull) return { code: 'RESOURCE_EXHAUSTED', message: error.message, reason: 'full' };
  if (error instanceof MoveForgotten) return { code: error.code, message: error.message, reason: 'forgotten' };
  if (error instanceof MoveEnded) {
    const { code, left, message } = error;
    return { code, message, reason: 'ended', ...(left !== undefined && { left: leftOut(left) }) };
  }
  if (error instanceof PoolAway) return { code: error.code, message: error.message, reason: 'pool-away' };
  if (error instanceof NotAdmitted) return { code: error.code, message: error.message, reason: 'not-admitted' };
  if (error instanceof OtherTree) return { code: error.code, message: error.message, reason: 'other-tree' };
  if (error instanceof HoldfastError) return { code: error.code, message: error.message };
  return { code: 'INTERNAL', message: error instanceof Error ? error.message : 'unknown' };
}

function leftOut({ isDeleted, state }: LeftAtSource) {
  return { isDeleted, ...(state !== undefined && { copy: { mark: serializeMark(state.mark), why: state.why } }) };
}

function leftIn({ copy, isDeleted }: NonNullable<z.infer<typeof told.refusal>['left']>): LeftAtSource {
  return { isDeleted, state: copy && { mark: parseMark(copy.mark, where), why: copy.why } };
}

/** The refusal of another node, as if it had happened here. */
export function errorOf({ code, left, message, reason }: z.infer<typeof told.refusal>): Error {
  if (reason === 'full') return new SourceFull(message);
  if (reason === 'ended') return new MoveEnded(message, left && leftIn(left));
  if (reason === 'forgotten') return new MoveForgotten(message);
  if (reason === 'pool-away') return new PoolAway(message);
  if (reason === 'other-tree') return new OtherTree(message);
  if (reason === 'not-admitted') return new NotConnected(message);
  return errorOfCode(code, message);
}

/** A frame of `read`: its type, and of a piece where it lies, how long it is, its digest if it is not zeros, its bytes. */
export const frameTypes = { head: 1, data: 2, zeros: 3, end: 4, refusal: 5 } as const;
export const digestBytes = 32;
/** Type, offset, length. */
export const frameHeadBytes = 13;

export function frameHead(type: number, offsetBytes: bigint, lengthBytes: number): Buffer {
  const head = Buffer.alloc(frameHeadBytes);
  head.writeUInt8(type, 0);
  head.writeBigUInt64BE(offsetBytes, 1);
  head.writeUInt32BE(lengthBytes, 9);
  return head;
}

export function* pieceFrame({ data, lengthBytes, offsetBytes }: Piece): Generator<Buffer> {
  const head = frameHead(data === undefined ? frameTypes.zeros : frameTypes.data, offsetBytes, lengthBytes);
  if (data === undefined) {
    yield head;
    return;
  }
  yield Buffer.concat([head, data.digest]);
  yield data.bytes;
}

export function jsonFrame(type: number, value: object): Buffer {
  const text = Buffer.from(JSON.stringify(value));
  return Buffer.concat([frameHead(type, 0n, text.length), text]);
}
