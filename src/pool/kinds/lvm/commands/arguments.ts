import type { LvPlan } from '../layout.ts';
import type { TagChange } from '../tags.ts';

/*
 * The commands of LVM, as arguments of lvm(8). Names are ours, or have been checked by the configuration.
 */

const sections = {
  vg: 'vg_name,vg_uuid,vg_attr,vg_size,vg_extent_size,vg_missing_pv_count,vg_mda_size,vg_mda_free,vg_tags',
  pv: 'vg_name,pv_uuid,pv_name,pv_size,pv_free,pv_attr,pv_missing,pv_major,pv_minor',
  lv: 'vg_name,lv_name,lv_uuid,lv_size,lv_attr,lv_layout,sync_percent,lv_tags',
  seg: 'vg_name,lv_name,stripes,thin_id',
} as const;

/** Everything of one volume group, or of all. */
export function reportArguments(vgName: string | undefined): string[] {
  const asked = Object.entries(sections).flatMap(([section, fields]) => ['--configreport', section, '-o', fields]);
  const silent = ['--configreport', 'pvseg', '-o', ','];
  const format = ['--reportformat', 'json', '--units', 'b', '--nosuffix'];
  return ['fullreport', ...format, ...asked, ...silent, ...(vgName === undefined ? [] : [vgName])];
}

export interface NewLv {
  readonly vgName: string;
  readonly lvName: string;
  readonly plan: LvPlan;
  readonly tags: readonly string[];
}

/** It is not activated at boot by other programs; the driver does the wiping, so LVM writes nothing to it. */
export function createArguments({ lvName, plan, tags, vgName }: NewLv): string[] {
  const { devicePaths, extents } = plan;
  const quiet = ['--yes', '--wipesignatures', 'n', '--zero', 'n'];
  const what = [...layoutArguments(plan), '--extents', `${extents}`, ...added(tags), '--name', lvName];
  return ['lvcreate', ...quiet, ...what, vgName, ...devicePaths];
}

/** True if programs that activate every volume they find, at boot or when its disks appear, activate it. */
export type Autoactivation = 'n' | 'y';

const notAtBoot = ['--setautoactivation', 'n'];
const stripeSize = '64k';

function layoutArguments({ layout, stripes }: LvPlan): string[] {
  switch (layout) {
    case 'linear':
      return ['--type', 'linear', ...notAtBoot];
    case 'striped':
      return ['--type', 'striped', '--stripes', `${stripes}`, '--stripesize', stripeSize, ...notAtBoot];
    case 'raid1':
      // lvcreate knows no --setautoactivation for these: they have it with their first change of tags.
      return ['--type', 'raid1', '--mirrors', '1'];
  }
}

/** One commit of the volume group's metadata, however many tags. */
export function retagArguments(
  vgName: string,
  lvName: string,
  { add, remove }: TagChange,
  autoactivation?: Autoactivation,
): string[] {
  const atBoot = autoactivation === undefined ? [] : ['--setautoactivation', autoactivation];
  const tags = [...remove.flatMap((tag) => ['--deltag', tag]), ...added(add)];
  return ['lvchange', ...atBoot, ...tags, `${vgName}/${lvName}`];
}

/** The kernel gets the table that the group's metadata say. */
export function refreshArguments(vgName: string, lvName: string): string[] {
  return ['lvchange', '--refresh', `${vgName}/${lvName}`];
}

export function renameArguments(vgName: string, lvName: string, newName: string): string[] {
  return ['lvrename', vgName, lvName, newName];
}

/** @param devicePaths where it may grow; none: anywhere */
export function extendArguments(
  vgName: string,
  lvName: string,
  { devicePaths, extents }: Pick<LvPlan, 'devicePaths' | 'extents'>,
): string[] {
  return ['lvextend', '--extents', `${extents}`, `${vgName}/${lvName}`, ...devicePaths];
}

/** On which disks each leg of a mirror lies. */
export function legsArguments(vgName: string, lvName: string): string[] {
  const chosen = ['--select', `lv_name=~"^${lvName}_rimage_"`];
  return ['lvs', '--all', '--reportformat', 'json', '-o', 'lv_name,devices', ...chosen, vgName];
}

/** Also volumes that are marked to be skipped, or not to be activated automatically. */
export function activateArguments(vgName: string, lvName: string): string[] {
  return ['lvchange', '--yes', '--activate', 'y', '--ignoreactivationskip', `${vgName}/${lvName}`];
}

export function deactivateArguments(vgName: string, lvNames: readonly string[]): string[] {
  return ['lvchange', '--activate', 'n', ...lvNames.map((name) => `${vgName}/${name}`)];
}

export function removeArguments(vgName: string, lvName: string): string[] {
  return ['lvremove', '--yes', `${vgName}/${lvName}`];
}

/** Writes the group's metadata to all of its disks again. */
export function repairArguments(vgName: string): string[] {
  return ['vgck', '--updatemetadata', vgName];
}

/** Room for the tags of thousands of volumes: LVM's default is enough for a few hundred. */
const metadataSize = '32m';

/** For a blank disk. Without --yes: it refuses to continue where it finds anything. */
export function makePvArguments(uuid: string, devicePath: string): string[] {
  return ['pvcreate', '--uuid', uuid, '--norestorefile', '--metadatasize', metadataSize, devicePath];
}

/** For physical volumes. */
export function makeGroupArguments(vgName: string, tag: string, devicePaths: readonly string[]): string[] {
  return ['vgcreate', '--addtag', tag, vgName, ...devicePaths];
}

export function extendGroupArguments(vgName: string, devicePaths: readonly string[]): string[] {
  return ['vgextend', vgName, ...devicePaths];
}

/** The words that give a logical volume these tags. */
export function added(tags: readonly string[]): string[] {
  return tags.flatMap((tag) => ['--addtag', tag]);
}
