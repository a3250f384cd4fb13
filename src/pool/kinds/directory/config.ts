import type { SectionReader } from '../../../settings/section.ts';
import { absolutePath, oneOf } from '../../../settings/values.ts';
import { type SystemDiskUse, systemDiskUses } from '../../location/disk/system-disk.ts';

/**
 * The role of project quota. required: without it the pool is not opened. whenAvailable: it holds the sizes of volumes
 * where the filesystem has it switched on. none: it is not used.
 */
const quotaUses = ['required', 'whenAvailable', 'none'] as const;
export type QuotaUse = (typeof quotaUses)[number];

/** The options that only directory pools have. */
export interface DirectoryOptions {
  /** The pool's own directory, on a filesystem that the operator looks after; empty only if there is a mistake. */
  readonly path: string;
  readonly quota: QuotaUse;
  /** Unset: allow. */
  readonly systemDisk?: SystemDiskUse;
}

const readers = { path: absolutePath, quota: oneOf(quotaUses), systemDisk: oneOf(systemDiskUses) };

export const directoryKeys: readonly string[] = Object.keys(readers);

export function readDirectoryOptions(section: SectionReader): DirectoryOptions {
  const { path, quota, systemDisk } = section.readAll(readers);
  if (!section.has('path')) section.mistake([], 'needs a path: the directory for its volumes');
  const disk = systemDisk === undefined ? {} : { systemDisk };
  return { path: path ?? '', quota: quota ?? 'whenAvailable', ...disk };
}
