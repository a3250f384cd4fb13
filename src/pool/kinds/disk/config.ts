import type { SectionReader } from '../../../settings/section.ts';
import { absolutePath, oneOf, yesOrNo } from '../../../settings/values.ts';
import { type WipePolicy, wipePolicies } from '../../../volume/wipe-policy.ts';

/** What only pools of a disk are configured by. */
export interface DiskOptions {
  /** A disk or a partition; empty only if there is a mistake. */
  readonly device: string;
  /** What becomes of the data of what was deleted. */
  readonly wipe: WipePolicy;
  /** What it holds, if that is not Holdfast's, is to become its volume (`holdfast adopt`). */
  readonly adopt: boolean;
}

const readers = { device: absolutePath, wipe: oneOf(wipePolicies), adopt: yesOrNo };

export const diskKeys: readonly string[] = Object.keys(readers);

export function readDiskOptions(section: SectionReader): DiskOptions {
  const { adopt, device, wipe } = section.readAll(readers);
  if (!section.has('device')) section.mistake([], 'needs a device: the disk that is to be its volume');
  return { device: device ?? '', wipe: wipe ?? 'discard', adopt: adopt ?? false };
}
