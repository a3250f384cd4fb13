import { type ReadValue, type SectionReader, sectionWith, WrongValue } from '../settings/section.ts';
import { absolutePath, duration, labels, number, oneOf, size } from '../settings/values.ts';
import { type FilesystemType, filesystemTypes } from '../volume/filesystem.ts';
import type { Labels } from '../volume/labels.ts';
import { type Trimming, trimmings } from '../volume/trimming.ts';

/** The settings of a pool of any kind. Where a kind has no use for one of them, it cannot be set. */
export interface PoolSettings {
  readonly name: string;
  /** For a pool that a section with several was expanded to: that section's name. */
  readonly section?: string | undefined;
  /** The space that is never provisioned to volumes; undefined: the pool's own rule. */
  readonly reserveBytes: bigint | undefined;
  /** 1: never provision more than there is. */
  readonly overcommit: number;
  readonly defaultFilesystem: FilesystemType;
  /** The time for which deleted volumes can be restored, unless their class says otherwise; 0: not at all. */
  readonly undeleteSeconds: number;
  readonly trimming: Trimming;
  /** A disk that has not answered for this time is sick, and its pool goes into quarantine. */
  readonly sickAfterMs: number;
  /** A key for encrypted volumes of classes without a secret; undefined: there is none. */
  readonly keyFile: string | undefined;
  /** Labels by which classes can choose it (`poolSelector`). */
  readonly labels: Labels;
}

/** Below that it is a number whose unit was forgotten. */
export const smallestReserveBytes = 1n << 20n;
export const undeleteBounds = { minimumSeconds: 0, maximumSeconds: 3650 * 86_400 } as const;
export const sickAfterBounds = { minimumSeconds: 1, maximumSeconds: 3600 } as const;
/** A disk at the end of a long queue takes seconds for a sync; one that takes this long is of no use. */
const defaultSickAfterSeconds = 20;

/** The values of the keys that several kinds have in a pool's section. */
interface CommonValues {
  readonly reserve: bigint;
  readonly overcommit: number;
  readonly defaultFilesystem: FilesystemType;
  readonly undelete: number;
  readonly trim: Trimming;
  readonly sickAfter: number;
  readonly encryption: { readonly keyFile: string };
  readonly labels: Labels;
}

export type CommonKey = keyof CommonValues;

const readKeyFile = sectionWith({ keyFile: absolutePath });

function readEncryption(value: unknown): CommonValues['encryption'] {
  const { keyFile } = readKeyFile(value);
  if (keyFile === undefined) throw new WrongValue('needs a keyFile, such as /run/keys/holdfast');
  return { keyFile };
}

const readers: { readonly [Key in CommonKey]: ReadValue<CommonValues[Key]> } = {
  reserve: size(smallestReserveBytes),
  overcommit: number({ minimum: 1, maximum: 1000 }),
  defaultFilesystem: oneOf(filesystemTypes),
  undelete: duration(undeleteBounds),
  // Helm, and all else that reads YAML 1.1, makes false of a plain off.
  trim: (value) => oneOf(trimmings)(value === false ? 'off' : value),
  sickAfter: duration(sickAfterBounds),
  encryption: readEncryption,
  labels,
};

/** @param keys those that the pool's kind has */
export function readSettings(name: string, section: SectionReader, keys: readonly CommonKey[]): PoolSettings {
  const read = <Key extends CommonKey>(key: Key): CommonValues[Key] | undefined =>
    keys.includes(key) ? section.read(key, readers[key]) : undefined;
  return {
    name,
    reserveBytes: read('reserve'),
    overcommit: read('overcommit') ?? 1,
    defaultFilesystem: read('defaultFilesystem') ?? 'ext4',
    undeleteSeconds: read('undelete') ?? 0,
    trimming: read('trim') ?? 'weekly',
    sickAfterMs: (read('sickAfter') ?? defaultSickAfterSeconds) * 1000,
    keyFile: read('encryption')?.keyFile,
    labels: read('labels') ?? {},
  };
}
