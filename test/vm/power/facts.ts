import { CallError } from '../../support/client.ts';
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

/** What the driver answers where the pool's disk has not kept what was acknowledged. */
const lossWords = /EUCLEAN|EBADMSG|is missing|cannot be read|has only \d+ of \d+ bytes|has errors/;

/**
 * Does what must succeed after a power cut, as it did before. A refusal that says that data is lost or damaged is a
 * violation; whatever else goes wrong is a failure of another kind.
 */
export async function keeps<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    if (error.code !== 'DATA_LOSS' && !lossWords.test(error.message)) throw error;
    throw new Violation(`${what}: ${error.code}: ${error.message}`, { cause: error });
  }
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
