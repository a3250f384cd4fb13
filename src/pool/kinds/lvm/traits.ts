import { filesystemTypes } from '../../../volume/filesystem.ts';
import { layouts } from '../../../volume/layout.ts';
import { wipePolicies } from '../../../volume/wipe-policy.ts';
import type { Traits } from '../../pool.ts';

/** The traits of thick logical volumes, which have all their extents from the start. */
export function linearTraits(extentBytes: bigint | undefined): Traits {
  return {
    block: true,
    directories: false,
    filesystems: filesystemTypes,
    provisioning: ['thick'],
    layouts,
    wipes: wipePolicies,
    snapshots: 'copy',
    copiesAlways: true,
    changedBlocks: 'none',
    expansion: { online: true, offline: true },
    detaching: 'explicit',
    granularityBytes: extentBytes,
  };
}
