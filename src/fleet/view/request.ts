import { z } from 'zod';
import { InvalidArgument } from '../../volume/errors.ts';
import { inOneSentence, parseInput } from '../../volume/parse-input.ts';

/** The lists; also the resources whose `get` RBAC grants (docs/fleet.md). */
export const listNames = ['nodes', 'pools', 'volumes', 'snapshots', 'trash', 'who', 'export'] as const;
export type ListName = (typeof listNames)[number];

/** The options of a request. */
export interface ViewWishes {
  readonly list: ListName;
  readonly volume: string | undefined;
  readonly node: string | undefined;
  readonly json: boolean;
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
  output: z.enum(['table', 'json']).default('table'),
  wait: z.coerce.number().int().min(1).max(60).default(usualWaitSeconds),
  'reclaim-policy': z.enum(['Retain', 'Delete']).default('Retain'),
  'storage-class': z.string().min(1).max(253).optional(),
  namespace: z.string().min(1).max(63).optional(),
});

/** A header, not a parameter: an older controller refuses unknown parameters, but ignores this and sends all columns. */
export const widthHeader = 'x-holdfast-columns';

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
  if (volume !== undefined && !['volumes', 'who', 'export', 'trash'].includes(list)) {
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
    waitMs: wait * 1000,
    reclaimPolicy: parsed.data['reclaim-policy'],
    storageClass: parsed.data['storage-class'],
    namespace,
    width: columns !== undefined && /^[1-9][0-9]{1,3}$/.test(columns) ? Number(columns) : undefined,
  };
}
