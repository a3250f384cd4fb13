import { added } from './arguments.ts';

/*
 * The commands of LVM for thin volumes, as arguments of lvm(8). Thin pools and volumes know no --setautoactivation: the mark
 * to be skipped keeps event activation from them.
 */

const skipped = ['--setactivationskip', 'y'];
/** Activates now, in spite of the mark. */
const active = ['--ignoreactivationskip'];

export interface NewThinPool {
  readonly vgName: string;
  readonly lvName: string;
  readonly extents: bigint;
  readonly metadataBytes: bigint;
  readonly chunkBytes: bigint;
  readonly tags: readonly string[];
}

/**
 * With zeros where it was not written yet: a volume reads nothing of another one. Discards of filesystems are passed on to the
 * disk.
 */
export function newThinPoolArguments(pool: NewThinPool): string[] {
  const { chunkBytes, extents, lvName, metadataBytes, tags, vgName } = pool;
  const sizes = ['--extents', `${extents}`, '--poolmetadatasize', `${metadataBytes}b`, '--chunksize', `${chunkBytes}b`];
  const how = ['--zero', 'y', '--discards', 'passdown', ...skipped];
  return ['lvcreate', '--yes', '--type', 'thin-pool', ...sizes, ...how, ...added(tags), '--name', lvName, vgName];
}

export interface NewThinLv {
  readonly vgName: string;
  readonly poolLvName: string;
  readonly lvName: string;
  readonly sizeBytes: bigint;
  readonly tags: readonly string[];
}

export function newThinLvArguments({ lvName, poolLvName, sizeBytes, tags, vgName }: NewThinLv): string[] {
  const how = ['--wipesignatures', 'n', ...skipped, ...active];
  const size = ['--virtualsize', `${sizeBytes}b`, '--thinpool', poolLvName];
  return ['lvcreate', '--yes', '--type', 'thin', ...how, ...size, ...added(tags), '--name', lvName, vgName];
}

export interface NewThinClone {
  readonly vgName: string;
  readonly fromName: string;
  readonly lvName: string;
  readonly isActive: boolean;
  readonly tags: readonly string[];
}

/** For a volume that is not in use. */
export function newThinCloneArguments({ fromName, isActive, lvName, tags, vgName }: NewThinClone): string[] {
  const how = [...skipped, ...(isActive ? active : ['--activate', 'n'])];
  return ['lvcreate', '--yes', '--snapshot', ...how, ...added(tags), '--name', lvName, `${vgName}/${fromName}`];
}

export function extendDataArguments(vgName: string, lvName: string, extents: bigint): string[] {
  return ['lvextend', '--extents', `+${extents}`, `${vgName}/${lvName}`];
}

export function extendMetadataArguments(vgName: string, lvName: string, bytes: bigint): string[] {
  return ['lvextend', '--poolmetadatasize', `+${bytes}b`, `${vgName}/${lvName}`];
}

export function activateAllArguments(vgName: string, lvNames: readonly string[]): string[] {
  return ['lvchange', '--yes', '--activate', 'y', ...active, ...lvNames.map((name) => `${vgName}/${name}`)];
}
