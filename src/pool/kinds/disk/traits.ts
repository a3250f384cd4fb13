import { filesystemTypes } from '../../../volume/filesystem.ts';
import { provisionings } from '../../../volume/record.ts';
import type { Traits } from '../../pool.ts';

/** A disk is always thick; whoever asks for thin gets no less. */
export const diskTraits: Traits = {
  block: true,
  directories: false,
  filesystems: filesystemTypes,
  provisioning: provisionings,
  snapshots: 'none',
  changedBlocks: 'none',
  expansion: { online: false, offline: false },
  detaching: 'explicit',
};
