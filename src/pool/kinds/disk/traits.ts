import { filesystemTypes } from '../../../volume/filesystem.ts';
import type { Traits } from '../../pool.ts';

/** The traits of a disk that is one volume. */
export function diskTraits(dataBytes: bigint): Traits {
  return {
    block: true,
    directories: false,
    filesystems: filesystemTypes,
    provisioning: ['thick'],
    snapshots: 'none',
    changedBlocks: 'none',
    expansion: { online: false, offline: false },
    detaching: 'explicit',
    granularityBytes: dataBytes,
    isOneVolume: true,
  };
}
