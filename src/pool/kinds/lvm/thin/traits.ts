import { filesystemTypes } from '../../../../volume/filesystem.ts';
import type { Traits } from '../../../pool.ts';
import { hasRoomForNote } from '../pool-volume.ts';

/** The traits of thin logical volumes, which take space as they are written, and share blocks with the source of a clone. */
export function thinTraits(extentBytes: bigint | undefined): Traits {
  return {
    block: true,
    directories: false,
    filesystems: filesystemTypes,
    provisioning: ['thin'],
    snapshots: 'reflink',
    changedBlocks: hasRoomForNote(extentBytes) ? 'delta' : 'none',
    expansion: { online: true, offline: true },
    detaching: 'explicit',
    granularityBytes: extentBytes,
  };
}
