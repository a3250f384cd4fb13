import { type SectionReader, shown, WrongValue } from '../../../settings/section.ts';
import { oneOf } from '../../../settings/values.ts';
import { type WipePolicy, wipePolicies } from '../../wipe/wipe.ts';

/** What only LVM pools are configured by. */
export interface LvmOptions {
  /** Of the operator's; empty only if there is a mistake. */
  readonly volumeGroup: string;
  /** What becomes of the extents of what was deleted. */
  readonly wipe: WipePolicy;
}

/** As lvm(8) has it, and short enough for the name of a device with a volume's name behind it. */
const groupNamePattern = /^(?!-)(?!\.{1,2}$)[a-zA-Z0-9+_.-]{1,40}$/;

function groupName(value: unknown): string {
  if (typeof value === 'string' && groupNamePattern.test(value)) return value;
  throw new WrongValue(`must be the name of a volume group (at most 40 letters, digits, + _ . -), not ${shown(value)}`);
}

const readers = { volumeGroup: groupName, wipe: oneOf(wipePolicies) };

export const lvmKeys: readonly string[] = Object.keys(readers);

export function readLvmOptions(section: SectionReader): LvmOptions {
  const { volumeGroup, wipe } = section.readAll(readers);
  if (!section.has('volumeGroup')) {
    section.mistake([], 'needs a volumeGroup: the one that its volumes are to lie in');
  }
  return { volumeGroup: volumeGroup ?? '', wipe: wipe ?? 'discard' };
}
