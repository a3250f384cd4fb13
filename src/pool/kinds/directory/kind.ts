import { parseVolumeId } from '../../../volume/id.ts';
import type { PoolKind } from '../../kind.ts';
import { configuredPlace } from '../../location/place.ts';
import type { Seen, SeenVolume } from '../../pool.ts';
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

/** The volume that a mounted directory seems to be of. Volumes lie in `volumes/<id>/data` (`Layout`). */
function directoryByName({ mount }: Seen): SeenVolume | undefined {
  const [, name = '', below] = /\/volumes\/(vol-[a-z2-7]{26})\/data(\/.*)?$/.exec(mount?.root ?? '') ?? [];
  const id = parseVolumeId(name);
  return id === undefined ? undefined : { id, isWhole: below === undefined };
}
