import { join } from 'node:path';
import type { DiskQueue } from '../../kernel/call/disk-queue.ts';
import { ignoreMissing, isErrno } from '../../kernel/call/errno.ts';
import { readMountTable } from '../../kernel/mount/mount-table.ts';
import { isEncrypted } from '../layers/luks/named/below.ts';
import type { NodeKind } from '../node-side.ts';
import { type Finding, ok, warn } from '../sight.ts';
import { isAt, serverOfNote, serversOf } from './noted-volume.ts';
import { readNotes, type VolumeNote } from './volume-notes.ts';

/** A volume that this node uses, and of which it has a note. */
export interface NotedSight {
  readonly handle: string;
  readonly kind: string;
  /** The address that its kind gives; undefined: this program does not know the kind, or cannot read the context. */
  readonly server: string | undefined;
  readonly content: VolumeNote['volume']['content'];
  /** Where it is staged or published; isMounted false: a stage or unstage is under way, or was cut short. */
  readonly paths: readonly { readonly path: string; readonly isMounted: boolean }[];
}

/** Where a driver keeps the notes on its volumes. */
export function notesOfVolumes(dataDirectory: string): string {
  return join(dataDirectory, 'volumes');
}

/** Looks at the notes without a driver; asks no server. A note that cannot be read has a reason instead. */
export async function lookAtNotes(
  dataDirectory: string,
  kinds: readonly NodeKind[],
  queue: DiskQueue,
): Promise<{ readonly volumes: readonly NotedSight[]; readonly problems: readonly string[] }> {
  const notes = (await readNotes(notesOfVolumes(dataDirectory), queue).catch(ignoreMissing)) ?? [];
  const table = await readMountTable(queue);
  const isMounted = (note: VolumeNote, path: string) =>
    table.some(({ target }) => isAt({ ...note, paths: [path] }, target));
  const volumes = notes.flatMap((note) => {
    if ('reason' in note) return [];
    const { content, handle } = note.volume;
    const paths = note.paths.map((path) => ({ path, isMounted: isMounted(note, path) }));
    return [
      {
        handle,
        kind: note.kind,
        server: serverOfNote(
          note,
          kinds.find(({ name }) => name === note.kind),
        ),
        content,
        paths,
      },
    ];
  });
  const problems = notes.flatMap((note) =>
    'reason' in note ? [`the note ${note.path} cannot be read: ${note.reason}`] : [],
  );
  return { volumes: volumes.sort((a, b) => (a.handle < b.handle ? -1 : 1)), problems };
}

/** The notes that `holdfast doctor` can read. Other findings are about missing privileges. */
async function readableNotes(dataDirectory: string, queue: DiskQueue): Promise<VolumeNote[]> {
  const notes = await readNotes(notesOfVolumes(dataDirectory), queue).catch((error: unknown) => {
    if (!isErrno(error, 'ENOENT', 'EACCES')) throw error;
    return [];
  });
  return notes.flatMap((note) => ('reason' in note ? [] : [note]));
}

/** Answers if this node uses a volume that a PersistentVolume names, and that is encrypted here. */
export async function usesEncryptedDisk(dataDirectory: string, queue: DiskQueue): Promise<boolean> {
  return (await readableNotes(dataDirectory, queue)).some(({ volume }) => isEncrypted(volume));
}

/** Asks the servers of the volumes that this node uses, for `holdfast doctor`. */
export async function checkServers(
  dataDirectory: string,
  kinds: readonly NodeKind[],
  queue: DiskQueue,
): Promise<Finding[]> {
  const findings = serversOf(await readableNotes(dataDirectory, queue), kinds).map(
    async ({ kind, server, volumes }) => {
      const [volume] = volumes;
      if (kind.askServer === undefined) return [];
      const check = `${kind.name} ${server}`;
      const count = volumes.length === 1 ? '1 volume of this node' : `${volumes.length} volumes of this node`;
      const reason = await kind.askServer(volume);
      if (reason === undefined) return [ok(check, `answers; ${count}`)];
      const advice = 'Start the server, or mend the way to it. Pods that use it wait, and can be ended.';
      return [warn(check, `the server ${reason}; ${count}`, advice)];
    },
  );
  return (await Promise.all(findings)).flat();
}
