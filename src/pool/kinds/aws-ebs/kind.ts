import type { PoolKind } from '../../kind.ts';
import { type EbsPoolOptions, ebsPoolKeys, readEbsPool } from './config.ts';
import { ebsParameters } from './parameters.ts';

/** Volumes of Amazon EBS, with their records in their tags. */
export const ebsKind: PoolKind<EbsPoolOptions> = {
  clusterDriver: 'disks.holdfast.csi.dev',
  isAttachedByHome: true,
  parameters: ebsParameters,
  commonKeys: ['defaultFilesystem', 'labels'],
  ownKeys: ebsPoolKeys,
  read: readEbsPool,
  /** Nothing on this node. */
  claims: () => [],

  async open({ name, own }, context) {
    const { openEbsBackend } = await import('./open.ts');
    return openEbsBackend({ ...context, ...own, name });
  },

  /** Each node knows by its notes the volumes that are mounted there. */
  volumeByName: () => undefined,

  place: ({ own }) => ({ type: 'cloud', path: own.poolId }),

  async look(pool, request) {
    const { lookAtCloudPool, lookTimes } = await import('../../cloud-disk/look.ts');
    const { openEbsBackend } = await import('./open.ts');
    const { name, own } = pool;
    return lookAtCloudPool(pool, request, () => openEbsBackend({ ...request, ...own, name, ...lookTimes }));
  },

  async checkNode() {
    return [];
  },
};
