import { randomBytes } from 'node:crypto';
import type { OwnLv } from './group-state.ts';

/*
 * Families of thin volumes that may share blocks: a volume, its clones, and their clones. LVM forgets the relation once an
 * origin is gone, so each has a tag for its family.
 */

const prefix = 'holdfast.family=';

export function isFamilyTag(tag: string): boolean {
  return tag.startsWith(prefix);
}

export function newFamilyTag(): string {
  return `${prefix}${randomBytes(8).toString('hex')}`;
}

/** The same family as that of a source. */
export function familyTagOf({ tags }: Pick<OwnLv, 'tags'>): string {
  return tags.find(isFamilyTag) ?? newFamilyTag();
}

/** True if no other volume shares blocks with it. One without a family may share with any. */
export function isAlone(lv: OwnLv, all: Iterable<OwnLv>): boolean {
  const family = lv.tags.find(isFamilyTag);
  if (family === undefined) return false;
  for (const other of all) if (other.name !== lv.name && other.tags.includes(family)) return false;
  return true;
}
