import { z } from 'zod';
import type { KubernetesApi } from './api.ts';
import { SecretNotes } from './secret-notes.ts';
import type { ObjectPlace } from './stored-object.ts';

const schema = z.object({ at: z.string() });

function notesIn(api: KubernetesApi, place: ObjectPlace) {
  return new SecretNotes({ api, place, key: 'forgotten-nodes', schema });
}

/** Nodes that an operator has said are gone for good: since when, by their names. */
export type ForgottenNodes = ReadonlyMap<string, { readonly at: string }>;

/** @throws Unavailable */
export async function readForgotten(api: KubernetesApi, place: ObjectPlace): Promise<ForgottenNodes> {
  return notesIn(api, place).read();
}

/** It may be said twice. @throws Unavailable */
export async function forgetNode(api: KubernetesApi, place: ObjectPlace, node: string): Promise<void> {
  await notesIn(api, place).change((notes) => {
    if (notes.has(node)) return false;
    notes.set(node, { at: new Date().toISOString() });
    return true;
  });
}

/** @throws Unavailable */
export async function rememberNode(api: KubernetesApi, place: ObjectPlace, node: string): Promise<void> {
  await notesIn(api, place).change((notes) => notes.delete(node));
}
