import type { Disk } from '../../../../kernel/block/disks.ts';
import { type MatchSection, sectionsMatching, twoSections } from '../../../location/match/criteria.ts';
import type { Member } from '../../../location/match/members.ts';
import { poolNameFor } from './pool-name.ts';

/** A disk, as far as the kernel and the configuration tell of it without asking it. */
export interface SeenDisk {
  readonly disk: Disk;
  readonly links: readonly string[];
  /** Pools that name it, or a part of it: `pool fast`. */
  readonly owners: readonly string[];
  /** Other disks with the same permanent name. */
  readonly namesakes: readonly string[];
}

/** The relation of the sections to a disk. */
export type MatchClaim =
  | { readonly kind: 'none' }
  /** It has a pool of a section already, whether the section matches it still or not. */
  | { readonly kind: 'member'; readonly poolName: string }
  /** It is for this pool, if it is free. */
  | { readonly kind: 'candidate'; readonly section: string; readonly poolName: string; readonly identity: string }
  /** It matches, and is not taken. */
  | { readonly kind: 'passed-over'; readonly sections: readonly string[]; readonly reason: string };

/** The section that will have a disk. Of two that match it neither has it: which one was meant only the operator knows. */
export function claimOn(seen: SeenDisk, sections: readonly MatchSection[], members: readonly Member[]): MatchClaim {
  const { disk, links, namesakes, owners } = seen;
  const { identity } = disk;
  const wanting = sectionsMatching(sections, disk, links);
  const passedOver = (reason: string): MatchClaim =>
    wanting.length === 0 ? { kind: 'none' } : { kind: 'passed-over', sections: wanting, reason };
  if (owners.length > 0) return passedOver(`it is of ${owners.join(', ')}`);
  if (identity === undefined) return passedOver('nothing names it permanently: it has no serial number');
  const member = members.find((each) => each.identity === identity);
  // Which of several with its name it is, its label says.
  if (member !== undefined) return { kind: 'member', poolName: member.poolName };
  if (namesakes.length > 0) return passedOver(`${namesakes.join(', ')} has the same identity`);
  const [section] = wanting;
  if (section === undefined) return { kind: 'none' };
  if (wanting.length > 1) return passedOver(twoSections(wanting));
  const poolName = poolNameFor(section, disk, identity);
  if (members.some((each) => each.poolName === poolName)) return passedOver(`pool ${poolName} has another disk`);
  return { kind: 'candidate', section, poolName, identity };
}
