import { z } from 'zod';
import { Unavailable } from '../../volume/errors.ts';
import { inOneSentence, parseJsonInput } from '../../volume/parse-input.ts';
import { readAnswer } from './answer.ts';
import { ApiRefusal, type KubernetesApi } from './api.ts';
import { type SecretPlace, secretPath } from './secret.ts';

const secret = z.looseObject({ data: z.record(z.string(), z.string()).nullish() });
const stored = z.record(z.string(), z.object({ at: z.string() }));

/** Beside the certificates in the controller's own Secret: all replicas see it, and no other right is needed. */
const key = 'forgotten-nodes';
const [notFound, conflict] = [404, 409];
const mostTurns = 5;

/** Nodes that an operator has said are gone for good: since when, by their names. */
export type ForgottenNodes = ReadonlyMap<string, string>;

/** @throws Unavailable */
export async function readForgotten(api: KubernetesApi, place: SecretPlace): Promise<ForgottenNodes> {
  return new Map((await read(api, place)).nodes);
}

/** Does so once, whoever else changes the Secret. @throws Unavailable */
export async function changeForgotten(
  api: KubernetesApi,
  place: SecretPlace,
  change: (nodes: Map<string, string>) => void,
): Promise<void> {
  for (let turn = 1; ; turn++) {
    const { nodes, object } = await read(api, place);
    if (object === undefined) throw new Unavailable(`There is no Secret ${place.name} yet: a controller makes it.`);
    change(nodes);
    const text = JSON.stringify(Object.fromEntries(Array.from(nodes, ([name, at]) => [name, { at }])));
    const body = { ...object, data: { ...object.data, [key]: Buffer.from(text).toString('base64') } };
    try {
      await api.call({ method: 'PUT', path: secretPath(place), body, what: `change Secret ${place.name}` });
      return;
    } catch (error) {
      if (!(error instanceof ApiRefusal && error.status === conflict) || turn >= mostTurns) throw error;
    }
  }
}

async function read(api: KubernetesApi, place: SecretPlace) {
  const what = 'show a Secret';
  let answer: unknown;
  try {
    answer = await api.call({ path: secretPath(place), what });
  } catch (error) {
    if (error instanceof ApiRefusal && error.status === notFound) return { object: undefined, nodes: new Map() };
    throw error;
  }
  const object = readAnswer(secret, answer, what);
  const text = Buffer.from(object.data?.[key] ?? '', 'base64').toString();
  if (text === '') return { object, nodes: new Map<string, string>() };
  const parsed = parseJsonInput(stored, text);
  if ('data' in parsed) {
    return { object, nodes: new Map(Object.entries(parsed.data).map(([name, { at }]) => [name, at])) };
  }
  throw new Unavailable(`${key} in Secret ${place.name} cannot be read: ${inOneSentence(parsed.mistakes)}`);
}
