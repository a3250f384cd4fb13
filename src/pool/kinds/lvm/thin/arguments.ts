/*
 * What is asked of LVM for thin volumes, as arguments of lvm(8). Thin pools and volumes know no --setautoactivation: it is
 * their being marked to be skipped that keeps event activation from them.
 */

const skipped = ['--setactivationskip', 'y'];
/** Now, all the same. */
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
 * With zeros for what was not written yet: nobody reads what another one had. What filesystems discard is passed on to the
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

/** Of what nobody uses. */
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

function added(tags: readonly string[]): string[] {
  return tags.flatMap((tag) => ['--addtag', tag]);
}
