import { accessModes } from '../../../volume/capability.ts';
import type { Traits } from '../../pool.ts';
import { nfsParameters } from './parameters.ts';

export const nfsTraits: Traits = {
  block: false,
  directories: true,
  filesystems: [],
  servedTypes: ['nfs', 'nfs4'],
  accessModes,
  provisioning: ['thin'],
  snapshots: 'copy',
  copiesAlways: true,
  changedBlocks: 'none',
  expansion: { online: true, offline: true },
  detaching: 'automatic',
  parameters: nfsParameters,
};
