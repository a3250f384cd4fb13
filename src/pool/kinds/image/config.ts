import type { SectionReader } from '../../../settings/section.ts';
import { absolutePath, devicePath, oneOf, size } from '../../../settings/values.ts';
import { formatBytes } from '../../../volume/size.ts';
import type { Claim, Configured } from '../../kind.ts';
import { type SystemDiskUse, systemDiskUses } from '../../location/disk/system-disk.ts';
import type { Location } from '../../location/location.ts';
import type { DiskMatch } from '../../location/match/criteria.ts';
import { readMatch } from '../../location/match/read-match.ts';
import { automaticFile, poolRoot } from '../../location/place.ts';
import type { PoolSettings } from '../../settings.ts';

/** The options that only image pools have. */
export interface ImageOptions {
  /** For a pool with `match`, an empty path until its disk is found. */
  readonly location: Location;
  /** The pool's disk is the free one that is like this. */
  readonly match?: DiskMatch | undefined;
  /** For a directory or file that is named; unset: allow. */
  readonly systemDisk?: SystemDiskUse;
}

/** mkfs.xfs makes none that is smaller. */
export const smallestFileBytes = 300n << 20n;

const readers = {
  directory: absolutePath,
  device: devicePath,
  file: absolutePath,
  size: size(smallestFileBytes),
  systemDisk: oneOf(systemDiskUses),
};
const locationKeys = ['directory', 'device', 'file', 'match'] as const;

export const imageKeys: readonly string[] = [...Object.keys(readers), 'match'];

export function readImageOptions(section: SectionReader, { reserveBytes }: PoolSettings): ImageOptions {
  const { device, directory, file, size: sizeBytes, systemDisk } = section.readAll(readers);
  const matching = section.below('match');
  const match = matching === undefined ? undefined : readMatch(matching);
  const named = locationKeys.filter((key) => section.has(key));
  if (named.length > 1) section.mistake([named[1] ?? ''], `set only one of ${named.join(', ')}`);
  if (section.has('size') && (section.has('directory') || section.has('device') || section.has('match'))) {
    section.mistake(['size'], 'only a backing file has a size; a directory or a device has that of its disk');
  }
  if (section.has('systemDisk') && !section.has('directory') && !section.has('file')) {
    section.mistake(['systemDisk'], 'is for a directory or a file that is named: name one, or leave the key out');
  }
  if (sizeBytes !== undefined && reserveBytes !== undefined && reserveBytes >= sizeBytes) {
    section.mistake(['reserve'], `must be less than the size of the pool, ${formatBytes(sizeBytes)}`);
  }
  const disk = systemDisk === undefined ? {} : { systemDisk };
  if (directory !== undefined) return { location: { type: 'directory', path: directory }, ...disk };
  if (device !== undefined) return { location: { type: 'device', path: device } };
  if (match !== undefined) return { location: { type: 'device', path: '' }, match };
  if (file !== undefined) return { location: { type: 'file', path: file, sizeBytes }, ...disk };
  return { location: { type: 'auto', sizeBytes } };
}

export function claimsOfImagePool({ name, own }: Configured<ImageOptions>, dataDirectory: string): Claim[] {
  const { location } = own;
  if (location.type === 'directory') return [{ ...location, key: 'directory' }];
  // Any other location is mounted there; without a location the pool is there itself, or in a file.
  const root = { type: 'directory', path: poolRoot(dataDirectory, name), key: undefined } as const;
  if (location.type === 'auto') {
    return [root, { type: 'file', path: automaticFile(dataDirectory, name), key: undefined }];
  }
  if (location.path === '') return [root];
  return [{ type: location.type, path: location.path, key: location.type }, root];
}
