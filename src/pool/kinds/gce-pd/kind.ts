import type { PoolKind } from '../../kind.ts';
import { type GcePoolOptions, gcePoolKeys, readGcePool } from './config.ts';
import { gceParameters } from './parameters.ts';

/** Persistent disks of Google Compute Engine, with their records in their labels. */
export const gceKind: PoolKind<GcePoolOptions> = {
  clusterDriver: 'disks.holdfast.csi.dev',
  isAttachedByHome: true,
  parameters: gceParameters,
  commonKeys: ['defaultFilesystem', 'labels'],
  ownKeys: gcePoolKeys,
  read: readGcePool,
  /** Nothing on this node. */
  claims: () => [],

  async open({ name, own }, context) {
    const { openGceBackend } = await import('./open.ts');
    return openGceBackend({ ...context, ...own, name });
  },

  /** Each node knows by its notes the volumes that are mounted there. */
  volumeByName: () => undefined,

  place: ({ own }) => ({ type: 'cloud', path: own.poolId }),

  async look(pool, request) {
    const { lookAtCloudPool, lookTimes } = await import('../../cloud-disk/look.ts');
    const { openGceBackend } = await import('./open.ts');
    const { name, own } = pool;
    return lookAtCloudPool(pool, request, () => openGceBackend({ ...request, ...own, name, ...lookTimes }));
  },

  async checkNode() {
    return [];
  },
};
