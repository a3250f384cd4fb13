import type { Traits } from '../../pool.ts';

export const nfsTraits: Traits = {
  block: false,
  directories: true,
  filesystems: [],
  provisioning: ['thin'],
  snapshots: 'copy',
  copiesAlways: true,
  changedBlocks: 'none',
  expansion: { online: true, offline: true },
  detaching: 'automatic',
};
