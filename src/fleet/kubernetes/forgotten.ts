import { z } from 'zod';
import type { KubernetesApi } from './api.ts';
import { SecretNotes } from './secret-notes.ts';
import type { ObjectPlace } from './stored-object.ts';

const schema = z.object({ at: z.string() });

function notesIn(api: KubernetesApi, place: ObjectPlace) {
  return new SecretNotes({ api, place, key: 'forgotten-nodes', schema });
}

/** Nodes that an operator has declared gone, by their names, with the time. */
export type ForgottenNodes = ReadonlyMap<string, { readonly at: string }>;

/** @throws Unavailable */
export async function readForgotten(api: KubernetesApi, place: ObjectPlace): Promise<ForgottenNodes> {
  return notesIn(api, place).read();
}

/** Time in which each replica can remove a note because the node has a link to it. Each looks every 10 seconds. */
export const objectionMs = 15_000;

/** It may be said twice. @returns the note that stands, which may be older. @throws Unavailable */
export async function forgetNode(
  api: KubernetesApi,
  place: ObjectPlace,
  node: string,
): Promise<{ readonly at: string }> {
  const note = { at: new Date().toISOString() };
  const notes = await notesIn(api, place).change((known) => !known.has(node) && known.set(node, note) !== undefined);
  return notes.get(node) ?? note;
}

/** Removes only the note of that time: a later one stays. @throws Unavailable */
export async function takeBack(api: KubernetesApi, place: ObjectPlace, node: string, at: string): Promise<void> {
  await notesIn(api, place).change((notes) => notes.get(node)?.at === at && notes.delete(node));
}

/** @throws Unavailable */
export async function rememberNode(api: KubernetesApi, place: ObjectPlace, node: string): Promise<void> {
  await notesIn(api, place).change((notes) => notes.delete(node));
}
