import type { PoolKind } from '../../kind.ts';
import { nfsByName } from './by-name.ts';
import { type NfsPoolOptions, nfsKeys, readNfsOptions } from './config.ts';
import { sourceOf } from './context.ts';
import { nfsParameters } from './parameters.ts';

/** Volumes as directories of an NFS export, mounted from there. */
export const nfsKind: PoolKind<NfsPoolOptions> = {
  clusterDriver: 'files.holdfast.csi.dev',
  commonKeys: ['reserve', 'overcommit', 'undelete', 'sickAfter', 'labels'],
  ownKeys: nfsKeys,
  parameters: nfsParameters,
  read: readNfsOptions,
  /** Nothing on this node: two drivers meet at the lock on the export. */
  claims: () => [],

  async open({ name, own }, context) {
    const { openNfsBackend } = await import('./open.ts');
    return openNfsBackend({ ...context, ...own, name });
  },

  volumeByName: nfsByName,

  place: ({ own }) => ({ type: 'export', path: sourceOf({ exported: own.exported, directory: own.path }) }),

  async look(pool, request) {
    const { lookAtNfsPool } = await import('./look.ts');
    return lookAtNfsPool(pool, request);
  },

  async checkNode(queue) {
    const { checkNfsClient } = await import('./look.ts');
    return checkNfsClient(queue);
  },
};
