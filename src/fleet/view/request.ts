import { z } from 'zod';
import type { ChangeName } from '../../page/messages.ts';
import { InvalidArgument } from '../../volume/errors.ts';
import { inOneSentence, parseInput } from '../../volume/parse-input.ts';
import { parseQuantity } from '../../volume/size.ts';
import type { Right } from '../kubernetes/viewers.ts';

/** The lists; also the resources whose `get` RBAC grants (docs/kubectl.md). */
export const listNames = [
  'nodes',
  'pools',
  'volumes',
  'snapshots',
  'trash',
  'moves',
  'disks',
  'who',
  'export',
] as const;
export type ListName = (typeof listNames)[number];

/** Changes, of which the page does not offer all. */
export type FleetChange = ChangeName | 'finish' | 'move';

/** The right that each change needs. */
export const rightsOf: Readonly<Record<FleetChange, Right>> = {
  move: { verb: 'create', resource: 'moves' },
  restore: { verb: 'update', resource: 'trash' },
  purge: { verb: 'delete', resource: 'trash' },
  cancel: { verb: 'delete', resource: 'moves' },
  finish: { verb: 'create', resource: 'moves' },
  forget: { verb: 'delete', resource: 'nodes' },
};

/** A change that a person asks for. */
export interface ChangeWishes {
  readonly change: FleetChange;
  /** The node to forget, that a volume moves to, or the node of the volume; undefined: the one that has it. */
  readonly node: string | undefined;
  /** The id, the name or `namespace/claim`; undefined for `forget`. */
  readonly volume: string | undefined;
  readonly json: boolean;
  /** The first line is for a program: the id of the move. */
  readonly progress: boolean;
  readonly dryRun: boolean;
  readonly evenSo: boolean;
  readonly undo: boolean;
  /** The pool that a volume moves to; undefined: its node chooses. */
  readonly toPool: string | undefined;
  readonly limitBytesPerSecond: bigint | undefined;
  /** The other node of the volume's move, which never comes back. */
  readonly lostNode: string | undefined;
  /** The pool of its node that the volume has moved to, whose disk is lost. */
  readonly lostPool: string | undefined;
  /** The snapshots of the volume that moves follow it. */
  readonly withSnapshots: boolean;
}

/** The options of a request. */
export interface ViewWishes {
  readonly list: ListName;
  readonly volume: string | undefined;
  readonly node: string | undefined;
  readonly json: boolean;
  /** Lines for a program: how a move to another node goes, which node surely has the volume, or the ids of all volumes. */
  readonly progress: boolean;
  /** The id of that move; undefined: the last one of the volume. */
  readonly move: string | undefined;
  /** Time that a node may take. */
  readonly waitMs: number;
  readonly reclaimPolicy: 'Retain' | 'Delete';
  readonly storageClass: string | undefined;
  /** Only volumes of claims in this namespace. */
  readonly namespace: string | undefined;
  /** Columns of the reader's terminal; undefined: it is no terminal. */
  readonly width: number | undefined;
}

const usualWaitSeconds = 15;

const query = z.strictObject({
  volume: z.string().min(1).max(400).optional(),
  node: z.string().min(1).max(253).optional(),
  output: z.enum(['table', 'json', 'progress']).default('table'),
  move: z.uuid().optional(),
  wait: z.coerce.number().int().min(1).max(60).default(usualWaitSeconds),
  'reclaim-policy': z.enum(['Retain', 'Delete']).default('Retain'),
  'storage-class': z.string().min(1).max(253).optional(),
  namespace: z.string().min(1).max(63).optional(),
});

/** A header, not a parameter: an older controller refuses unknown parameters, but ignores this and sends all columns. */
export const widthHeader = 'x-holdfast-columns';

const flag = z.enum(['true', 'false']).default('false');

const changeQuery = z.strictObject({
  volume: z.string().min(1).max(400).optional(),
  node: z.string().min(1).max(253).optional(),
  output: z.enum(['table', 'json', 'progress']).default('table'),
  'dry-run': flag,
  'even-so': flag,
  undo: flag,
  'to-pool': z.string().min(1).max(63).optional(),
  limit: z.string().min(1).max(30).optional(),
  'node-is-lost': z.string().min(1).max(253).optional(),
  'pool-is-lost': z.string().min(1).max(63).optional(),
  'with-snapshots': flag,
});

const changePaths: Readonly<Record<string, FleetChange>> = {
  '/v1/moves/start': 'move',
  '/v1/trash/restore': 'restore',
  '/v1/trash/purge': 'purge',
  '/v1/moves/cancel': 'cancel',
  '/v1/moves/finish': 'finish',
  '/v1/nodes/forget': 'forget',
};

/** The change that a path names; undefined: none. */
export function changeIn(path: string): FleetChange | undefined {
  return Object.hasOwn(changePaths, path) ? changePaths[path] : undefined;
}

/** @throws InvalidArgument */
export function changeWishesOf(change: FleetChange, search: string): ChangeWishes {
  const parsed = parseInput(changeQuery, Object.fromEntries(new URLSearchParams(search)));
  if (!('data' in parsed)) throw new InvalidArgument(inOneSentence(parsed.mistakes));
  const { node, output, undo, volume, 'dry-run': dryRun, 'even-so': evenSo } = parsed.data;
  const { limit, 'node-is-lost': lostNode, 'pool-is-lost': lostPool, 'to-pool': toPool } = parsed.data;
  const { 'with-snapshots': withSnapshots } = parsed.data;
  const isMove = change === 'move';
  const isForget = change === 'forget';
  if (isMove && node === undefined) throw new InvalidArgument('move needs a node: move VOLUME --to NODE');
  if (!isMove && (toPool !== undefined || limit !== undefined || withSnapshots === 'true')) {
    throw new InvalidArgument('only a move takes --to-pool, --limit and --with-snapshots');
  }
  if (isForget && node === undefined) throw new InvalidArgument('forget-node needs a node: forget-node NODE');
  if (isForget && volume !== undefined) throw new InvalidArgument('forget-node takes no volume');
  const command = isMove ? 'move' : `${change === 'cancel' || change === 'finish' ? 'move' : 'trash'} ${change}`;
  if (!isForget && volume === undefined) throw new InvalidArgument(`${command} needs a volume`);
  const takesEvenSo = change === 'finish' || change === 'cancel' || change === 'restore';
  if (!isForget && [isMove ? 'false' : dryRun, takesEvenSo ? 'false' : evenSo, undo].includes('true')) {
    throw new InvalidArgument(`${command} takes neither --dry-run nor --even-so nor --undo`);
  }
  if (lostNode !== undefined && !['cancel', 'finish', 'restore'].includes(change)) {
    throw new InvalidArgument('only move cancel, move finish and trash restore take --node-is-lost');
  }
  if (lostPool !== undefined && change !== 'finish' && change !== 'restore') {
    throw new InvalidArgument('only move finish and trash restore take --pool-is-lost');
  }
  if (change === 'finish' && (lostNode === undefined) === (lostPool === undefined)) {
    throw new InvalidArgument(`${command} needs one that is lost: --node-is-lost NODE, or --pool-is-lost POOL`);
  }
  const isSet = (text: string) => text === 'true';
  return {
    ...{ change, node, volume, json: output === 'json', progress: isMove && output === 'progress' },
    ...{ dryRun: isSet(dryRun), evenSo: isSet(evenSo), undo: isSet(undo), toPool, lostNode, lostPool },
    withSnapshots: isSet(withSnapshots),
    limitBytesPerSecond: limit === undefined ? undefined : limitIn(limit),
  };
}

/** @throws InvalidArgument */
function limitIn(text: string): bigint {
  const bytes = parseQuantity(text);
  if (bytes > 0n) return bytes;
  throw new InvalidArgument(`--limit ${text}: it must be more than nothing`);
}

/** The list that a path names; undefined: none. */
export function listIn(path: string): ListName | undefined {
  const name = /^\/v1\/([a-z]+)$/.exec(path)?.[1];
  return listNames.find((list) => list === name);
}

/** @throws InvalidArgument */
export function wishesOf(list: ListName, search: string, columns?: string): ViewWishes {
  const given = [...new URLSearchParams(search)];
  const parsed = parseInput(query, Object.fromEntries(given));
  if (!('data' in parsed)) throw new InvalidArgument(inOneSentence(parsed.mistakes));
  const { node, output, volume, wait } = parsed.data;
  if (list === 'who' && volume === undefined)
    throw new InvalidArgument('holdfast who needs a volume: holdfast who VOLUME');
  if (
    volume !== undefined &&
    !['volumes', 'who', 'export', 'trash', ...(output === 'progress' ? ['moves'] : [])].includes(list)
  ) {
    throw new InvalidArgument(`${list} takes no volume`);
  }
  const { namespace } = parsed.data;
  if (namespace !== undefined && !['volumes', 'export', 'trash'].includes(list)) {
    throw new InvalidArgument(`${list} takes no namespace`);
  }
  return {
    list,
    volume,
    node,
    json: output === 'json',
    progress: output === 'progress',
    move: parsed.data.move,
    waitMs: wait * 1000,
    reclaimPolicy: parsed.data['reclaim-policy'],
    storageClass: parsed.data['storage-class'],
    namespace,
    width: columns !== undefined && /^[1-9][0-9]{1,3}$/.test(columns) ? Number(columns) : undefined,
  };
}
