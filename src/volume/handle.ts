import { createHash } from 'node:crypto';
import { base32Digest, parseVolumeId, type SnapshotId, type VolumeId } from './id.ts';

/**
 * The id of a volume as the container orchestrator has it: one of ours, or one that a person wrote into a
 * PersistentVolume. Never a path or an argument: `fileNameOf` makes a file's name of it.
 */
export type VolumeHandle = VolumeId | ForeignHandle;

/** A handle that this driver did not make. Only `parseHandle` makes one. */
export type ForeignHandle = string & { readonly __kind: 'handle' };

/** The limit of CSI for a string (L02). */
const maximumBytes = 128;

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this is about
const controlCharacter = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

/** undefined: empty, too long, or with characters that a message or a log line must not have. */
export function parseHandle(text: string): VolumeHandle | undefined {
  const id = parseVolumeId(text);
  if (id !== undefined) return id;
  if (text === '' || Buffer.byteLength(text) > maximumBytes) return undefined;
  if (controlCharacter.test(text) || !text.isWellFormed()) return undefined;
  return text as ForeignHandle;
}

/**
 * A name for a file about the volume: the id if it is one of ours, else a hash of the handle. No handle has the name of
 * another one, as no id of ours begins with `pv-`.
 */
export function fileNameOf(handle: VolumeHandle | SnapshotId): string {
  return parseVolumeId(handle) ?? `pv-${base32Digest(createHash('sha256').update(handle).digest())}`;
}
