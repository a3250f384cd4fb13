import { filesystemTypes } from '../../../../volume/filesystem.ts';
import type { Traits } from '../../../pool.ts';
import { hasRoomForNote } from '../pool-volume.ts';

/** Of thin logical volumes, which take what is written to them, and share what they were cloned from. */
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
