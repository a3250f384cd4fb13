import type { PoolKind } from '../../kind.ts';
import { configuredPlace } from '../../location/place.ts';
import { directoryByName } from './by-name.ts';
import { type DirectoryOptions, directoryKeys, readDirectoryOptions } from './config.ts';

/** Volumes as directories of a filesystem, bind-mounted; their sizes are held by its project quota. */
export const directoryKind: PoolKind<DirectoryOptions> = {
  commonKeys: ['reserve', 'overcommit', 'undelete', 'sickAfter', 'labels'],
  ownKeys: directoryKeys,
  read: readDirectoryOptions,
  claims: ({ own }) => (own.path === '' ? [] : [{ type: 'directory', path: own.path, key: 'path' }]),

  async open({ name, own }, context) {
    const { openDirectoryBackend } = await import('./open.ts');
    return openDirectoryBackend({ ...context, ...own, name });
  },

  volumeByName: directoryByName,

  place: ({ name, own }, dataDirectory) => configuredPlace(dataDirectory, name, { type: 'directory', path: own.path }),

  async look(pool, request) {
    const { lookAtDirectoryPool } = await import('./look.ts');
    return lookAtDirectoryPool(pool, request);
  },

  async checkNode() {
    return [];
  },
};
