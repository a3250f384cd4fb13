import type { PoolKind } from '../../kind.ts';
import { diskVolumeByName } from './by-name.ts';
import { type DiskOptions, diskKeys, readDiskOptions } from './config.ts';

/** A disk or partition that is one volume, for who wants a spindle of their own. */
export const diskKind: PoolKind<DiskOptions> = {
  commonKeys: ['defaultFilesystem', 'undelete', 'sickAfter', 'encryption', 'labels'],
  ownKeys: diskKeys,
  read: readDiskOptions,
  claims: ({ own }) => (own.device === '' ? [] : [{ type: 'device', path: own.device, key: 'device' }]),

  async open({ name, own }, context) {
    const { openDiskBackend } = await import('./open.ts');
    return openDiskBackend({ ...context, ...own, name });
  },

  volumeByName: diskVolumeByName,

  place: ({ own }) => ({ type: 'disk', path: own.device }),

  async look(pool, request) {
    const { lookAtDiskPool } = await import('./look.ts');
    return lookAtDiskPool(pool, request);
  },

  async checkNode(queue) {
    const { checkNode } = await import('./check-node.ts');
    return checkNode(queue);
  },
};
