import type { MultipathMap } from '../../../kernel/block/multipath.ts';
import type { IscsiNote } from './connections.ts';
import { normalWwid } from './wwid.ts';

/** The identity of a logical unit. @param name permanent, as the kernel has it: `device/wwid naa.6001405…` */
export function identityIn(name: string): string {
  return normalWwid(name.replace(/^device\/wwid /, '')) ?? name;
}

/** The text of an identity in a note: with the number of the unit. */
export function placed(lun: string, identity: string): string {
  return `${lun} ${identity}`;
}

/** Answers if a unit may be another volume's too. One that is not noted yet may be at any place. */
export function isUsedByAnother({ identities = {}, users }: IscsiNote, handle: string, lun: string): boolean {
  return users.some((each) => each !== handle && (identities[each] ?? `${lun} `).startsWith(`${lun} `));
}

export interface Known {
  /** The identity that the PersistentVolume names. */
  readonly wwid: string | undefined;
  /** The one in the note, with its place. */
  readonly seen: string | undefined;
}

/** @returns why a unit with this identity must not be used as the volume; undefined: it may be */
export function refusalOf(lun: string, identity: string | undefined, { seen, wwid }: Known): string | undefined {
  if (identity === undefined) {
    return 'has no identity (VPD page 83h or 80h): a change of its mapping on the target cannot be noticed then';
  }
  if (wwid !== undefined && wwid !== identity) {
    return `is ${identity}, not ${wwid}, which the PersistentVolume names: the target has given the number to another volume. Correct the mapping there, or the PersistentVolume`;
  }
  if (seen !== undefined && seen !== placed(lun, identity)) {
    return `is ${identity} now, and was ${seen.slice(seen.indexOf(' ') + 1)} when its use on this node began: the target has given the number to another volume. End the pods of this one`;
  }
  return undefined;
}

/** The same of a unit through each of its paths. @param map that multipathd has made over them */
export function refusalOfPaths(
  lun: string,
  identities: readonly (string | undefined)[],
  known: Known,
  map: Pick<MultipathMap, 'name' | 'wwid'> | undefined,
): string | undefined {
  const refusal = identities.flatMap((each) => refusalOf(lun, each, known) ?? [])[0];
  if (refusal !== undefined) return refusal;
  const [identity] = identities;
  if (identity === undefined) return 'has no path any more: it is tried again';
  if (identities.some((each) => each !== identity) || (map !== undefined && normalWwid(map.wwid) !== identity)) {
    return `is ${identity}, but ${map?.name} of multipathd is not of that alone: end its use, then type multipath -f ${map?.name}`;
  }
  return undefined;
}
