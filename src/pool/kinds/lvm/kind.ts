import type { PoolKind } from '../../kind.ts';
import { lvmVolumeByName } from './by-name.ts';
import { type LvmOptions, lvmKeys, readLvmOptions } from './config.ts';

/** Volumes as logical volumes of a volume group, at the speed of its disks. */
export const lvmKind: PoolKind<LvmOptions> = {
  commonKeys: ['reserve', 'defaultFilesystem', 'undelete', 'trim', 'sickAfter', 'encryption', 'labels'],
  ownKeys: lvmKeys,
  keysBelow: { overcommit: 'thinPool' },
  read: readLvmOptions,
  claims: ({ own: { devices, volumeGroup } }) => [
    ...(volumeGroup === '' ? [] : [{ type: 'device', path: `/dev/${volumeGroup}`, key: 'volumeGroup' } as const]),
    ...devices.map((path) => ({ type: 'device', path, key: 'devices' }) as const),
  ],

  async open({ name, own }, context) {
    const { openLvmBackend } = await import('./open.ts');
    return openLvmBackend({ ...context, ...own, name });
  },

  volumeByName: lvmVolumeByName,

  place: ({ own }) => ({ type: 'volume group', path: own.volumeGroup }),

  async look(pool, request) {
    const { lookAtLvmPool } = await import('./look.ts');
    return lookAtLvmPool(pool, request);
  },

  async checkNode(queue) {
    const { checkNode } = await import('./check-node.ts');
    return checkNode(queue);
  },
};
