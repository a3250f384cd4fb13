import type { PoolKind } from '../../kind.ts';
import { poolRoot } from '../../location/place.ts';
import { type DiskOptions, describeMatch, diskKeys, readDiskOptions } from './config.ts';

/** Volumes as whole disks, told apart by labels of ours. */
export const diskKind: PoolKind<DiskOptions> = {
  commonKeys: ['defaultFilesystem', 'undelete', 'sickAfter', 'labels'],
  ownKeys: diskKeys,
  read: readDiskOptions,
  isWithoutLayers: true,
  claims: ({ name }, dataDirectory) => [{ type: 'directory', path: poolRoot(dataDirectory, name), key: undefined }],

  async open({ own, ...settings }, context) {
    const { openDiskBackend } = await import('./open.ts');
    return openDiskBackend({ ...settings, ...own, ...context });
  },

  // A partition's name does not say what lies on it.
  volumeByName: () => undefined,

  place: ({ own }) => ({ type: 'disks', path: describeMatch(own) }),

  async look(pool, request) {
    const { lookAtDiskPool } = await import('./look.ts');
    return lookAtDiskPool(pool, request);
  },

  async checkNode(queue) {
    const { checkNode } = await import('./check-node.ts');
    return checkNode(queue);
  },
};
