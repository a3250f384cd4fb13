import { z } from 'zod';
import { readAnswer } from './answer.ts';
import { ApiRefusal, type KubernetesApi } from './api.ts';

/** The position of the controller's Secret, and of its ConfigMap, which has the same name. */
export interface ObjectPlace {
  readonly namespace: string;
  readonly name: string;
}

export type StoredKind = 'Secret' | 'ConfigMap';

const resources = { Secret: 'secrets', ConfigMap: 'configmaps' } as const;

const storedObject = z.looseObject({
  metadata: z.looseObject({ resourceVersion: z.string().optional() }),
  data: z.record(z.string(), z.string()).nullish(),
});

/** Texts by their keys. Kubernetes encodes those of a Secret in Base64; here they are decoded. */
export type Texts = Readonly<Record<string, string>>;

const notFound = 404;
const conflict = 409;

/**
 * Limit of tries. The second of two writers reads what the first wrote; more than a few tries mean that another program
 * writes there.
 */
const maxTurns = 5;

/** @returns undefined if there is no such object. @throws Unavailable */
export async function readTexts(api: KubernetesApi, kind: StoredKind, place: ObjectPlace): Promise<Texts | undefined> {
  return (await read(api, kind, place))?.texts;
}

export interface Change<T> {
  /** The new content of the object; undefined: no change. */
  readonly put: Texts | undefined;
  readonly result: T;
}

/**
 * Changes an object, or makes it, despite concurrent changes. Other keys in it stay.
 * @param change may be called several times, with the current content
 * @throws Unavailable
 */
export async function changeTexts<T>(
  api: KubernetesApi,
  kind: StoredKind,
  place: ObjectPlace,
  change: (current: Texts | undefined) => Change<T>,
): Promise<T> {
  const { name, namespace } = place;
  for (let turn = 1; ; turn++) {
    const found = await read(api, kind, place);
    const { put, result } = change(found?.texts);
    if (put === undefined) return result;
    const body = {
      apiVersion: 'v1',
      kind,
      ...found?.object,
      metadata: { ...found?.object.metadata, name, namespace },
      data: { ...found?.object.data, ...written(kind, put) },
    };
    try {
      if (found === undefined) {
        await api.call({ method: 'POST', path: collectionPath(kind, place), body, what: `make ${kind} ${name}` });
      } else {
        await api.call({ method: 'PUT', path: objectPath(kind, place), body, what: `change ${kind} ${name}` });
      }
      return result;
    } catch (error) {
      if (!(error instanceof ApiRefusal && error.status === conflict) || turn >= maxTurns) throw error;
    }
  }
}

async function read(api: KubernetesApi, kind: StoredKind, place: ObjectPlace) {
  const what = `show ${kind} ${place.name}`;
  try {
    const object = readAnswer(storedObject, await api.call({ path: objectPath(kind, place), what }), what);
    const texts = Object.entries(object.data ?? {}).map(([key, text]) => [key, isEncoded(kind) ? decoded(text) : text]);
    return { object, texts: Object.fromEntries(texts) as Texts };
  } catch (error) {
    if (error instanceof ApiRefusal && error.status === notFound) return undefined;
    throw error;
  }
}

function written(kind: StoredKind, texts: Texts): Texts {
  if (!isEncoded(kind)) return texts;
  return Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString('base64')]));
}

function isEncoded(kind: StoredKind): boolean {
  return kind === 'Secret';
}

function decoded(text: string): string {
  return Buffer.from(text, 'base64').toString();
}

function collectionPath(kind: StoredKind, { namespace }: ObjectPlace): string {
  return `/api/v1/namespaces/${encodeURIComponent(namespace)}/${resources[kind]}`;
}

function objectPath(kind: StoredKind, place: ObjectPlace): string {
  return `${collectionPath(kind, place)}/${encodeURIComponent(place.name)}`;
}
