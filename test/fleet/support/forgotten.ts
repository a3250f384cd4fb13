import assert from 'node:assert/strict';
import { z } from 'zod';
import type { KubernetesApi } from '../../../src/fleet/kubernetes/api.ts';
import { SecretNotes } from '../../../src/fleet/kubernetes/secret-notes.ts';
import { eventually } from '../../support/eventually.ts';

/** Where the controllers of these tests keep their notes. */
export const place = { namespace: 'holdfast', name: 'holdfast-controller' };

/** Sets the time of notes back, for which the controller would wait. */
async function longAgo(api: KubernetesApi): Promise<void> {
  const notes = new SecretNotes({ api, place, key: 'forgotten-nodes', schema: z.unknown() });
  await notes.change((known) => {
    for (const [node, note] of known) {
      const text = JSON.stringify(note).replace(/"at":"[^"]*"/g, '"at":"2026-01-01T00:00:00.000Z"');
      known.set(node, JSON.parse(text));
    }
    return true;
  });
}

/** A node is forgotten, which the controller believes only later. @returns the notes @param order needs it */
export async function forgottenLongAgo(
  api: KubernetesApi,
  node: string,
  order: () => Promise<{ readonly problems: string }>,
) {
  const forgotten = new SecretNotes({ api, place, key: 'forgotten-nodes', schema: z.object({ at: z.string() }) });
  await forgotten.change((notes) => notes.set(node, { at: new Date().toISOString() }) !== undefined);
  await eventually(async () => assert.match((await order()).problems, /forgotten just now/), 30_000);
  await longAgo(api);
  return forgotten;
}
