import type { Traits } from '../../pool.ts';

export function directoryTraits(canShareBlocks: boolean): Traits {
  return {
    block: false,
    directories: true,
    filesystems: [],
    provisioning: ['thin'],
    snapshots: canShareBlocks ? 'copy' : 'none',
    changedBlocks: 'none',
    expansion: { online: true, offline: true },
    detaching: 'automatic',
  };
}
