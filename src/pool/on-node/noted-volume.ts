import { join } from 'node:path';
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
