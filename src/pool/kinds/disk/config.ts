import type { SectionReader } from '../../../settings/section.ts';
import { devicePath, oneOf, yesOrNo } from '../../../settings/values.ts';
import { type WipePolicy, wipePolicies } from '../../../volume/wipe-policy.ts';
import type { DiskMatch } from '../../location/match/criteria.ts';
import { readMatch } from '../../location/match/read-match.ts';
import type { PoolSettings } from '../../settings.ts';
import { longestSectionName } from './match/pool-name.ts';

/** The options that only pools of a disk have. */
export interface DiskOptions {
  /** A disk or a partition; empty if it is found in another way, or there is a mistake. */
  readonly device: string;
  /** The section stands for a pool on each disk that is like this. */
  readonly match?: DiskMatch | undefined;
  /** For such a pool: its disk's permanent name. */
  readonly identity?: string | undefined;
  /** The wiping of deleted data. */
  readonly wipe: WipePolicy;
  /** The disk's content, if it is not Holdfast's, will become its volume (`holdfast adopt`). */
  readonly adopt: boolean;
}

const readers = { device: devicePath, wipe: oneOf(wipePolicies), adopt: yesOrNo };

export const diskKeys: readonly string[] = [...Object.keys(readers), 'match'];

export function readDiskOptions(section: SectionReader, { name }: Pick<PoolSettings, 'name'>): DiskOptions {
  const { adopt, device, wipe } = section.readAll(readers);
  const matching = section.below('match');
  const match = matching === undefined ? undefined : readMatch(matching);
  if (match === undefined && !section.has('device')) {
    section.mistake([], 'needs a device, the disk for its volume; or match, for all disks of a sort');
  }
  if (match !== undefined && section.has('device')) section.mistake(['match'], 'set only one of device, match');
  if (match !== undefined && name.length > longestSectionName) {
    section.mistake(
      [],
      `is too long: with match a name has at most ${longestSectionName} characters, as each disk adds its own`,
    );
  }
  if (match !== undefined && section.has('adopt')) section.mistake(['adopt'], 'is for a device that is named');
  const options = { device: device ?? '', wipe: wipe ?? 'discard', adopt: adopt ?? false };
  return match === undefined ? options : { ...options, match };
}
