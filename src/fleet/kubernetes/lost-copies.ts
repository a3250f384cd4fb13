import { z } from 'zod';
import { FailedPrecondition } from '../../volume/errors.ts';
import type { KubernetesApi } from './api.ts';
import { SecretNotes } from './secret-notes.ts';
import type { ObjectPlace } from './stored-object.ts';

const schema = z.record(z.string(), z.object({ node: z.string(), at: z.string() }));

function notesIn(api: KubernetesApi, place: ObjectPlace) {
  return new SecretNotes({ api, place, key: 'lost-copies', schema });
}

/** Limit of all notes: they take 300 KiB of the Secret, which may have 1 MiB. */
const maxCopies = 2_000;

/** A copy on a node that was declared lost. Another node has the volume. */
export interface LostCopy {
  readonly lostNode: string;
  readonly volumeId: string;
  /** The node that has the volume, or takes it back just now. */
  readonly node: string;
}

/** The copies on each lost node, by the ids of their volumes, with the time. */
export type LostCopies = ReadonlyMap<string, z.infer<typeof schema>>;

/** @throws Unavailable */
export async function readLostCopies(api: KubernetesApi, place: ObjectPlace): Promise<LostCopies> {
  return notesIn(api, place).read();
}

/** Durable before the other node takes the volume back. @throws FailedPrecondition, Unavailable */
export async function noteLostCopy(
  api: KubernetesApi,
  place: ObjectPlace,
  { lostNode, node, volumeId }: LostCopy,
): Promise<void> {
  await notesIn(api, place).change((notes) => {
    const count = [...notes.values()].reduce((sum, copies) => sum + Object.keys(copies).length, 0);
    if (count >= maxCopies) {
      throw new FailedPrecondition(
        `${count} copies on lost nodes are noted, and no more can be: lost-copies in Secret ${place.name} has them.`,
      );
    }
    notes.set(lostNode, { ...notes.get(lostNode), [volumeId]: { node, at: new Date().toISOString() } });
    return true;
  });
}

/** Removes the note of a copy that is used no more. A later note of it stays. @throws Unavailable */
export async function settleLostCopy(
  api: KubernetesApi,
  place: ObjectPlace,
  { at, lostNode, volumeId }: Pick<LostCopy, 'lostNode' | 'volumeId'> & { readonly at: string },
): Promise<void> {
  await notesIn(api, place).change((notes) => {
    const { [volumeId]: copy, ...others } = notes.get(lostNode) ?? {};
    if (copy?.at !== at) return false;
    if (Object.keys(others).length === 0) notes.delete(lostNode);
    else notes.set(lostNode, others);
    return true;
  });
}
