import { checksumOf, contentOf } from '../machine/content.ts';
import type { Stretch } from '../machine/tasks.ts';
import type { Content } from '../node/guest-volume.ts';

/** What is known to be durable in a file, or in a stretch of a block volume. */
export interface FileFact {
  readonly seed: number;
  readonly sizeBytes: number;
  readonly offsetBytes?: number;
}

/** Files by their names; the stretches of a block volume by their numbers. */
export type Files = ReadonlyMap<string, FileFact>;

/** A snapshot, and what it was cut from. */
export interface SnapshotFact {
  readonly name: string;
  readonly id: string;
  readonly content: Content;
  readonly pool: string;
  readonly sizeBytes: bigint;
  readonly files: Files;
}

/** What a driver shows after a boot. */
export interface Sight {
  /** Sizes by id. */
  readonly volumes: ReadonlyMap<string, bigint>;
  readonly snapshots: ReadonlySet<string>;
  /** Which volumes can be brought back for a time once they are deleted. */
  readonly undeletable: ReadonlySet<string>;
}

/** Something acknowledged is not there, or something is that nobody made. */
export class Violation extends Error {}

export function holds(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Violation(message);
}

export function expectedChecksum({ seed, sizeBytes }: FileFact): string {
  return checksumOf(contentOf(seed, sizeBytes));
}

/** Where the files of a published volume are to be read. */
export function stretchesOf(files: Files, targetPath: string): Stretch[] {
  return [...files].map(([name, { offsetBytes, sizeBytes }]) =>
    offsetBytes === undefined
      ? { path: `${targetPath}/${name}`, sizeBytes }
      : { path: targetPath, offsetBytes, sizeBytes },
  );
}
