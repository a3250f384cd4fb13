import { filesystemTypes } from '../../../volume/filesystem.ts';
import type { Traits } from '../../pool.ts';

/** Of linear logical volumes, which have all their extents from the start. */
export function linearTraits(extentBytes: bigint | undefined): Traits {
  return {
    block: true,
    directories: false,
    filesystems: filesystemTypes,
    provisioning: ['thick'],
    snapshots: 'copy',
    copiesAlways: true,
    changedBlocks: 'none',
    expansion: { online: true, offline: true },
    detaching: 'explicit',
    granularityBytes: extentBytes,
  };
}
