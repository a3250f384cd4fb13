import { z } from 'zod';
import { shown } from '../settings/section.ts';
import { isClaim } from '../volume/claim.ts';
import { InvalidArgument } from '../volume/errors.ts';
import { parseHandle } from '../volume/handle.ts';
import { parseVolumeId } from '../volume/id.ts';
import { inOneSentence, parseInput } from '../volume/parse-input.ts';
import type { AdminCall, AdminHandlers } from './service.ts';

/** A request with its entry in the table. */
export interface RoutedCall {
  readonly operation: keyof AdminHandlers;
  readonly volumeId: string | undefined;
  run(call: AdminCall): Promise<object>;
}

interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** The group `id` becomes the input's `id`. */
  readonly path: RegExp;
  readonly operation: keyof AdminHandlers;
  readonly run: (handlers: AdminHandlers, input: unknown, call: AdminCall) => Promise<object>;
}

/** The limit of CreateVolume. */
const longestNameCharacters = 128;

const volumeId = z.string().transform((text, context) => {
  const id = parseVolumeId(text);
  if (id !== undefined) return id;
  context.addIssue(`${JSON.stringify(text)} is no volume id: those are vol- and 26 letters and digits`);
  return z.NEVER;
});

const volumeHandle = z.string().transform((text, context) => {
  const handle = parseHandle(text);
  if (handle !== undefined) return handle;
  context.addIssue(`${JSON.stringify(text)} cannot be the id of a volume`);
  return z.NEVER;
});

const absolutePath = z.string().refine((text) => text.startsWith('/') && !text.includes('\0'), {
  error: ({ input }) => `${shown(input)} must be an absolute path: /dev/GROUP/NAME, /dev/disk/by-id/…, or a directory`,
});
const adoption = z
  .strictObject({
    path: absolutePath,
    pool: z.string(),
    namespace: z.string(),
    claim: z.string(),
    name: z.string().min(1).max(longestNameCharacters).optional(),
    sizeBytes: z
      .string()
      .regex(/^[1-9][0-9]{0,18}$/)
      .transform(BigInt)
      .optional(),
  })
  .refine(({ claim, namespace }) => isClaim({ namespace, name: claim }), {
    error: 'Kubernetes allows no such claim: a namespace and a name have lower-case letters, digits and hyphens',
  });
const move = z.strictObject({
  id: volumeId,
  to: z.string(),
  limitBytesPerSecond: z
    .string()
    .regex(/^[1-9][0-9]{0,18}$/)
    .transform(BigInt)
    .optional(),
  withSnapshots: z
    .literal('true')
    .transform(() => true)
    .optional(),
});
const nothing = z.strictObject({});
const oneVolume = z.strictObject({ id: volumeId, lostNode: z.string().min(1).max(253).optional() });
const volumeOfLost = z.strictObject({ ...oneVolume.shape, lostPool: z.string().min(1).max(63).optional() });
const evenSo = z
  .literal('true')
  .transform(() => true)
  .optional();
const lostAndEvenSo = z.strictObject({ ...volumeOfLost.shape, evenSo });
const cancel = z.strictObject({ ...oneVolume.shape, evenSo });
/** Also one that a person wrote into a PersistentVolume. */
const anyHandle = z.strictObject({ id: volumeHandle });
const volumeAndPath = z.strictObject({ id: volumeId, to: absolutePath.optional() });
const optionalVolume = z.strictObject({ id: volumeId.optional() });

const routes: readonly Route[] = [
  {
    method: 'GET',
    path: /^\/v1\/pools$/,
    operation: 'listPools',
    run: (handlers, input, call) => handlers.listPools(parse(nothing, input), call),
  },
  {
    method: 'GET',
    path: /^\/v1\/conditions$/,
    operation: 'listConditions',
    run: (handlers, input, call) => handlers.listConditions(parse(nothing, input), call),
  },
  {
    method: 'GET',
    path: /^\/v1\/trash$/,
    operation: 'listTrash',
    run: (handlers, input, call) => handlers.listTrash(parse(nothing, input), call),
  },
  {
    method: 'POST',
    path: /^\/v1\/trash\/(?<id>[^/]+)\/restore$/,
    operation: 'restore',
    run: (handlers, input, call) => handlers.restore(parse(lostAndEvenSo, input), call),
  },
  {
    method: 'DELETE',
    path: /^\/v1\/trash(\/(?<id>[^/]+))?$/,
    operation: 'purge',
    run: (handlers, input, call) => handlers.purge(parse(optionalVolume, input), call),
  },
  {
    method: 'POST',
    path: /^\/v1\/adoptions$/,
    operation: 'adopt',
    run: (handlers, input, call) => handlers.adopt(parse(adoption, input), call),
  },
  {
    method: 'POST',
    path: /^\/v1\/volumes\/(?<id>[^/]+)\/release$/,
    operation: 'release',
    run: (handlers, input, call) => handlers.release(parse(volumeAndPath, input), call),
  },
  {
    method: 'GET',
    path: /^\/v1\/moves$/,
    operation: 'listMoves',
    run: (handlers, input, call) => handlers.listMoves(parse(nothing, input), call),
  },
  {
    method: 'GET',
    path: /^\/v1\/volumes\/(?<id>[^/]+)\/move$/,
    operation: 'planMove',
    run: (handlers, input, call) => handlers.planMove(parse(move, input), call),
  },
  {
    method: 'POST',
    path: /^\/v1\/volumes\/(?<id>[^/]+)\/move$/,
    operation: 'startMove',
    run: (handlers, input, call) => handlers.startMove(parse(move, input), call),
  },
  {
    method: 'DELETE',
    path: /^\/v1\/volumes\/(?<id>[^/]+)\/move$/,
    operation: 'cancelMove',
    run: (handlers, input, call) => handlers.cancelMove(parse(cancel, input), call),
  },
  {
    method: 'POST',
    path: /^\/v1\/volumes\/(?<id>[^/]+)\/move\/finish$/,
    operation: 'finishMove',
    run: (handlers, input, call) => handlers.finishMove(parse(lostAndEvenSo, input), call),
  },
  {
    method: 'GET',
    path: /^\/v1\/volumes\/(?<id>[^/]+)\/holders$/,
    operation: 'holders',
    run: (handlers, input, call) => handlers.holders(parse(anyHandle, input), call),
  },
];

/** Finds the operation that the request asks for; undefined if there is none. */
export function routeOf(handlers: AdminHandlers, method: string, url: string): RoutedCall | undefined {
  const [path = '', query = ''] = url.split('?', 2);
  for (const route of routes) {
    const match = route.method === method ? route.path.exec(path) : null;
    if (match === null) continue;
    const id = decode(match.groups?.['id']);
    const input = { ...Object.fromEntries(new URLSearchParams(query)), ...(id === undefined ? {} : { id }) };
    return { operation: route.operation, volumeId: id, run: (call) => route.run(handlers, input, call) };
  }
  return undefined;
}

/** Keeps malformed escape sequences: no id has any. */
function decode(text: string | undefined): string | undefined {
  try {
    return text === undefined ? undefined : decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @throws InvalidArgument */
function parse<T>(schema: z.ZodType<T>, input: unknown): T {
  const parsed = parseInput(schema, input);
  if ('data' in parsed) return parsed.data;
  throw new InvalidArgument(inOneSentence(parsed.mistakes));
}
