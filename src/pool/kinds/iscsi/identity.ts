import { permanentNameOf } from '../../../kernel/block/disk-identity.ts';
import type { MultipathMap } from '../../../kernel/block/multipath.ts';
import { unitNamesOf } from '../../../kernel/block/scsi-names.ts';
import type { DiskQueue } from '../../../kernel/call/disk-queue.ts';
import type { DeviceNumber } from '../../../kernel/device.ts';
import type { IscsiNote } from './connections.ts';
import { normalWwid } from './wwid.ts';

/** The identity of a logical unit. @param name permanent, as the kernel has it: `device/wwid naa.6001405…` */
export function identityIn(name: string): string {
  return normalWwid(name.replace(/^device\/wwid /, '')) ?? name;
}

/** The names of a logical unit, the one first that stands for it: its kernel, or multipathd, may prefer another. */
export type UnitNames = readonly string[];

/** All names of a unit: its own ones, then the one that this kernel has for it. */
export async function namesOf(queue: DiskQueue, device: DeviceNumber): Promise<UnitNames> {
  const [names, own] = [await unitNamesOf(queue, device), await permanentNameOf(queue, device)];
  return own === undefined ? names : [...new Set([...names, identityIn(own)])];
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

/** @returns why a unit with these names must not be used as the volume; undefined: it may be */
export function refusalOf(lun: string, names: UnitNames, { seen, wwid }: Known): string | undefined {
  const [identity] = names;
  if (identity === undefined) {
    return 'has no identity (VPD page 83h or 80h): a change of its mapping on the target cannot be noticed then';
  }
  if (wwid !== undefined && !names.includes(wwid)) {
    return `is ${identity}, not ${wwid}, which the PersistentVolume names: the target has given the number to another volume. Correct the mapping there, or the PersistentVolume`;
  }
  if (seen !== undefined && !names.some((each) => seen === placed(lun, each))) {
    return `is ${identity} now, and was ${seen.slice(seen.indexOf(' ') + 1)} when its use on this node began: the target has given the number to another volume. End the pods of this one`;
  }
  return undefined;
}

/** The same of a unit through each of its paths. @param map that multipathd has made over them */
export function refusalOfPaths(
  lun: string,
  paths: readonly UnitNames[],
  known: Known,
  map: Pick<MultipathMap, 'name' | 'wwid'> | undefined,
): string | undefined {
  const refusal = paths.flatMap((each) => refusalOf(lun, each, known) ?? [])[0];
  if (refusal !== undefined) return refusal;
  const [first] = paths;
  if (first === undefined) return 'has no path any more: it is tried again';
  const [identity] = first;
  const isOfMap = map === undefined || first.includes(normalWwid(map.wwid) ?? '');
  if (!isOfMap || paths.some((each) => !isSameUnit(each, first))) {
    return `is ${identity}, but ${map?.name} of multipathd is not of that alone: end its use, then type multipath -f ${map?.name}`;
  }
  return undefined;
}

/** Names of one form must not contradict each other: some arrays give two units the same EUI. */
function isSameUnit(a: UnitNames, b: UnitNames): boolean {
  const shared = a.filter((each) => b.includes(each));
  const forms = new Set(a.map(formOf).filter((form) => b.some((each) => formOf(each) === form)));
  return shared.length > 0 && [...forms].every((form) => shared.some((each) => formOf(each) === form));
}

function formOf(text: string): string {
  return text.slice(0, text.indexOf('.'));
}

/** The identity of a unit for its note: that of its map, by which multipathd knows it. */
export function identityOf(names: UnitNames, map: Pick<MultipathMap, 'wwid'> | undefined): string | undefined {
  const mapped = map && normalWwid(map.wwid);
  return mapped !== undefined && names.includes(mapped) ? mapped : names[0];
}
