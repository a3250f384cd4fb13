import type { Configured } from '../../../kind.ts';
import type { MatchSection } from '../../../location/match/criteria.ts';
import type { Member } from '../../../location/match/members.ts';
import type { DiskOptions } from '../config.ts';

export function sectionsIn(sections: readonly Configured<DiskOptions>[]): MatchSection[] {
  return sections.flatMap(({ name, own: { match } }) => (match === undefined ? [] : [{ name, match }]));
}

/** The pool of one disk of a section. @param device where the disk is now; the opening looks for the disk again */
export function memberPool(
  section: Configured<DiskOptions>,
  { identity, poolName }: Member,
  device = '',
): Configured<DiskOptions> {
  const { wipe } = section.own;
  return { ...section, name: poolName, section: section.name, own: { device, identity, wipe, adopt: false } };
}
