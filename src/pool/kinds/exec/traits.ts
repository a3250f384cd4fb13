import { accessModes } from '../../../volume/capability.ts';
import type { Traits } from '../../pool.ts';
import type { ProgramConfig } from './config.ts';

/** A device of a program is given to pods as it is: nothing here formats it. */
export function execTraits({ presents, snapshots }: Pick<ProgramConfig, 'presents' | 'snapshots'>): Traits {
  return {
    block: presents === 'device',
    directories: presents === 'directory',
    filesystems: [],
    accessModes,
    provisioning: ['thin'],
    snapshots: snapshots ? 'reflink' : 'none',
    hasNoGroups: true,
    changedBlocks: 'none',
    expansion: { online: true, offline: true },
    detaching: 'automatic',
  };
}
