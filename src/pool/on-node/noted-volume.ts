import { join } from 'node:path';
import { HoldfastError } from '../../volume/errors.ts';
import { fileNameOf } from '../../volume/handle.ts';
import type { ContextContent, NodeKind, VolumeOnNode } from '../node-side.ts';
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
  try {
    return kind?.serverOf(volumeOf(kind, note.volume));
  } catch (error) {
    if (error instanceof HoldfastError) return undefined;
    throw error;
  }
}
