import type { PoolKind } from '../../kind.ts';
import { configuredPlace } from '../../location/place.ts';
import { type ExecPoolOptions, execPoolKeys, readExecPool } from './config.ts';

/** Volumes that a program makes and deletes, with records in a directory of the home. */
export const execKind: PoolKind<ExecPoolOptions> = {
  clusterDriver: 'files.holdfast.csi.dev',
  commonKeys: ['sickAfter', 'labels'],
  ownKeys: execPoolKeys,
  read: readExecPool,
  claims: ({ own }) => (own.records === '' ? [] : [{ type: 'directory', path: own.records, key: 'records' }]),

  async open({ name, own }, context) {
    const { openExecBackend } = await import('./open.ts');
    return openExecBackend({ ...context, ...own, name });
  },

  /** Each node knows by its notes the volumes that are mounted there. */
  volumeByName: () => undefined,

  place: ({ name, own }, dataDirectory) =>
    configuredPlace(dataDirectory, name, { type: 'directory', path: own.records }),

  async look(pool, request) {
    const { lookAtExecPool } = await import('./look-at-pool.ts');
    return lookAtExecPool(pool, request);
  },

  async checkNode() {
    return [];
  },
};
