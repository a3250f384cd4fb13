import { join } from 'node:path';
import { HoldfastError } from '../../volume/errors.ts';
import { fileNameOf } from '../../volume/handle.ts';
import { type ContextContent, fateOf, type NodeKind, type VolumeOnNode } from '../node-side.ts';
import type { VolumeNote } from './volume-notes.ts';

/** A volume as its note or its context has it. */
export function volumeOf(kind: NodeKind, noted: VolumeNote['volume'] & ContextContent): VolumeOnNode {
  return { accessModes: kind.traits.accessModes, ...noted };
}

/** Answers if a mount is at a path of the note. A device is mounted on a file in its staging directory. */
export function isAt({ paths, volume }: VolumeNote, target: string | undefined): boolean {
  if (target === undefined) return false;
  return paths.some((path) => path === target || join(path, fileNameOf(volume.handle)) === target);
}

/** The server of a noted volume; undefined: the kind is not known, or only another version of this driver reads its context. */
export function serverOfNote(note: VolumeNote, kind: NodeKind | undefined): string | undefined {
  return ifReadable(note, kind, (known, volume) => known.serverOf(volume));
}

/** A server, and the noted volumes on it. */
export interface ServerOfNotes {
  readonly kind: NodeKind;
  readonly server: string;
  readonly volumes: readonly [VolumeOnNode, ...VolumeOnNode[]];
}

/** The servers of noted volumes; notes that cannot be read are left out. */
export function serversOf(notes: readonly VolumeNote[], kinds: readonly NodeKind[]): ServerOfNotes[] {
  const found = new Map<string, ServerOfNotes>();
  for (const note of notes) {
    const kind = kinds.find(({ name }) => name === note.kind);
    const server = serverOfNote(note, kind);
    if (kind === undefined || server === undefined) continue;
    const key = `${kind.name} ${server}`;
    const volumes = found.get(key)?.volumes ?? [];
    found.set(key, { kind, server, volumes: [volumeOf(kind, note.volume), ...volumes] });
  }
  return [...found.values()];
}

/** The volumes with which a noted one shares its fate; undefined: as above. */
export function fateOfNote(note: VolumeNote, kind: NodeKind | undefined): string | undefined {
  return ifReadable(note, kind, fateOf);
}

/** The disk that a noted volume is; undefined: as above, or its kind cannot tell. */
export function diskOfNote(note: VolumeNote, kind: NodeKind): string | undefined {
  return ifReadable(note, kind, (known, volume) => known.diskOf?.(volume));
}

function ifReadable(
  note: VolumeNote,
  kind: NodeKind | undefined,
  read: (kind: NodeKind, volume: VolumeOnNode) => string | undefined,
): string | undefined {
  try {
    return kind && read(kind, volumeOf(kind, note.volume));
  } catch (error) {
    if (error instanceof HoldfastError) return undefined;
    throw error;
  }
}
