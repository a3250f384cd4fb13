import { type SectionReader, shown, WrongValue } from '../../../settings/section.ts';
import { devicePath, list, oneOf } from '../../../settings/values.ts';
import { type WipePolicy, wipePolicies } from '../../../volume/wipe-policy.ts';
import type { DiskMatch } from '../../location/match/criteria.ts';
import { readMatch } from '../../location/match/read-match.ts';
import type { PoolSettings } from '../../settings.ts';
import { type ThinPoolOptions, thinPool } from './thin/config.ts';

/** The options that only LVM pools have. */
export interface LvmOptions {
  /** The operator's group, or ours; empty only if there is a mistake. */
  readonly volumeGroup: string;
  /** The disks that it is made of if it is ours; empty: it is the operator's. */
  readonly devices: readonly string[];
  /** It is ours, and made of the free disk that is like this. */
  readonly match?: DiskMatch | undefined;
  /** The wiping of the extents of deleted volumes. */
  readonly wipe: WipePolicy;
  /** undefined: its volumes are linear. */
  readonly thinPool?: ThinPoolOptions;
}

/** The pattern of lvm(8), and short enough for the name of a device with a volume's name behind it. */
const groupNamePattern = /^(?!-)(?!\.{1,2}$)[a-zA-Z0-9+_.-]{1,40}$/;

function groupName(value: unknown): string {
  if (typeof value === 'string' && groupNamePattern.test(value)) return value;
  throw new WrongValue(`must be the name of a volume group (at most 40 letters, digits, + _ . -), not ${shown(value)}`);
}

/** For a group of ours. */
function ownName(section: SectionReader, poolName: string): string {
  const name = `holdfast-${poolName}`;
  if (groupNamePattern.test(name)) return name;
  section.mistake([], `needs a volumeGroup, too: the name for its group, ${name}, is too long for LVM`);
  return '';
}

const readers = {
  volumeGroup: groupName,
  devices: list(devicePath, 'path of a disk'),
  wipe: oneOf(wipePolicies),
  thinPool,
};

export const lvmKeys: readonly string[] = [...Object.keys(readers), 'match'];

export function readLvmOptions(section: SectionReader, { name }: Pick<PoolSettings, 'name'>): LvmOptions {
  const read = section.readAll(readers);
  const { devices, wipe } = read;
  const matching = section.below('match');
  const match = matching === undefined ? undefined : readMatch(matching);
  const isOurs = section.has('devices') || match !== undefined;
  const volumeGroup = isOurs && !section.has('volumeGroup') ? ownName(section, name) : read.volumeGroup;
  const isThin = section.has('thinPool');
  if (!section.has('volumeGroup') && !isOurs) {
    section.mistake([], 'needs a volumeGroup for its volumes, or devices or a match to make one of');
  }
  if (match !== undefined && section.has('devices')) section.mistake(['match'], 'set only one of devices, match');
  if (isThin && section.has('wipe')) {
    section.mistake(['wipe'], 'cannot be with a thinPool: what thin volumes were not written yet is zeros');
  }
  if (!isThin && section.has('trim')) section.mistake(['trim'], 'needs a thinPool: other volumes keep their space');
  return {
    ...{ volumeGroup: volumeGroup ?? '', devices: devices ?? [], wipe: wipe ?? 'discard' },
    ...(match !== undefined && { match }),
    ...(read.thinPool !== undefined && { thinPool: read.thinPool }),
  };
}
