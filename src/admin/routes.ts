import { z } from 'zod';
import { shown } from '../settings/section.ts';
import { isClaim } from '../volume/claim.ts';
import { InvalidArgument } from '../volume/errors.ts';
import { parseHandle } from '../volume/handle.ts';
import { parseVolumeId } from '../volume/id.ts';
import { inOneSentence, parseInput } from '../volume/parse-input.ts';
import type { AdminCall, AdminHandler, AdminHandlers } from './service.ts';

/** A request with its entry in the table. */
export interface RoutedCall {
  readonly operation: keyof AdminHandlers;
  readonly volumeId: string | undefined;
  run(call: AdminCall): Promise<object>;
}

type Inputs = { readonly [Name in keyof AdminHandlers]: Parameters<AdminHandlers[Name]>[0] };

interface Route<Input> {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** The group `id` becomes the input's `id`. */
  readonly path: RegExp;
  readonly input: z.ZodType<Input>;
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

const routes: { readonly [Name in keyof Inputs]: Route<Inputs[Name]> } = {
  listPools: { method: 'GET', path: /^\/v1\/pools$/, input: nothing },
  listConditions: { method: 'GET', path: /^\/v1\/conditions$/, input: nothing },
  listTrash: { method: 'GET', path: /^\/v1\/trash$/, input: nothing },
  restore: { method: 'POST', path: /^\/v1\/trash\/(?<id>[^/]+)\/restore$/, input: lostAndEvenSo },
  purge: { method: 'DELETE', path: /^\/v1\/trash(\/(?<id>[^/]+))?$/, input: optionalVolume },
  adopt: { method: 'POST', path: /^\/v1\/adoptions$/, input: adoption },
  release: { method: 'POST', path: /^\/v1\/volumes\/(?<id>[^/]+)\/release$/, input: volumeAndPath },
  listMoves: { method: 'GET', path: /^\/v1\/moves$/, input: nothing },
  planMove: { method: 'GET', path: /^\/v1\/volumes\/(?<id>[^/]+)\/move$/, input: move },
  startMove: { method: 'POST', path: /^\/v1\/volumes\/(?<id>[^/]+)\/move$/, input: move },
  cancelMove: { method: 'DELETE', path: /^\/v1\/volumes\/(?<id>[^/]+)\/move$/, input: cancel },
  finishMove: { method: 'POST', path: /^\/v1\/volumes\/(?<id>[^/]+)\/move\/finish$/, input: lostAndEvenSo },
  holders: { method: 'GET', path: /^\/v1\/volumes\/(?<id>[^/]+)\/holders$/, input: anyHandle },
};

/** Finds the operation that the request asks for; undefined if there is none. */
export function routeOf(handlers: AdminHandlers, method: string, url: string): RoutedCall | undefined {
  const [path = '', query = ''] = url.split('?', 2);
  for (const operation of Object.keys(routes) as (keyof Inputs)[]) {
    const route = routes[operation];
    const match = route.method === method ? route.path.exec(path) : null;
    if (match === null) continue;
    const id = decode(match.groups?.['id']);
    const input = { ...Object.fromEntries(new URLSearchParams(query)), ...(id === undefined ? {} : { id }) };
    return { operation, volumeId: id, run: (call) => run(handlers, operation, input, call) };
  }
  return undefined;
}

/** @throws InvalidArgument, or what the operation throws */
async function run<Name extends keyof Inputs>(
  handlers: { readonly [Each in keyof Inputs]: AdminHandler<Inputs[Each], object> },
  operation: Name,
  input: unknown,
  call: AdminCall,
): Promise<object> {
  const parsed = parseInput(routes[operation].input, input);
  if ('mistakes' in parsed) throw new InvalidArgument(inOneSentence(parsed.mistakes));
  return handlers[operation](parsed.data, call);
}

/** Keeps malformed escape sequences: no id has any. */
function decode(text: string | undefined): string | undefined {
  try {
    return text === undefined ? undefined : decodeURIComponent(text);
  } catch {
    return text;
  }
}
