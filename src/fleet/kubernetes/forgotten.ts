import { z } from 'zod';
import type { KubernetesApi } from './api.ts';
import type { SecretPlace } from './secret.ts';
import { SecretNotes } from './secret-notes.ts';

const schema = z.object({ at: z.string() });

function notesIn(api: KubernetesApi, place: SecretPlace) {
  return new SecretNotes({ api, place, key: 'forgotten-nodes', schema });
}

/** Nodes that an operator has said are gone for good: since when, by their names. */
export type ForgottenNodes = ReadonlyMap<string, { readonly at: string }>;

/** @throws Unavailable */
export async function readForgotten(api: KubernetesApi, place: SecretPlace): Promise<ForgottenNodes> {
  return notesIn(api, place).read();
}

/** It may be said twice. @throws Unavailable */
export async function forgetNode(api: KubernetesApi, place: SecretPlace, node: string): Promise<void> {
  await notesIn(api, place).change((notes) => {
    if (notes.has(node)) return false;
    notes.set(node, { at: new Date().toISOString() });
    return true;
  });
}

/** @throws Unavailable */
export async function rememberNode(api: KubernetesApi, place: SecretPlace, node: string): Promise<void> {
  await notesIn(api, place).change((notes) => notes.delete(node));
}
