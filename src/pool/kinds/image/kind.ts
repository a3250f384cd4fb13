import type { PoolKind } from '../../kind.ts';
import { describeMatch } from '../../location/match/read-match.ts';
import { configuredPlace } from '../../location/place.ts';
import { imageByName } from './by-name.ts';
import { claimsOfImagePool, type ImageOptions, imageKeys, readImageOptions } from './config.ts';

/** Volumes as image files, shown as disks through loop devices. */
export const imageKind: PoolKind<ImageOptions> = {
  commonKeys: ['reserve', 'overcommit', 'defaultFilesystem', 'undelete', 'trim', 'sickAfter', 'encryption', 'labels'],
  ownKeys: imageKeys,
  read: readImageOptions,
  claims: claimsOfImagePool,

  async open({ name, own }, context) {
    const { openImageBackend } = await import('./open.ts');
    if (own.match === undefined) return openImageBackend({ ...context, ...own, name });
    const { diskOfPool } = await import('../../location/match/one-disk.ts');
    const matched = await diskOfPool({ ...context, poolName: name, match: own.match, holds: 'xfs' });
    return openImageBackend({ ...context, location: { type: 'device', path: matched.path }, matched, name });
  },

  volumeByName: imageByName,

  place({ name, own }, dataDirectory) {
    const place = configuredPlace(dataDirectory, name, own.location);
    return own.match === undefined || place.path !== '' ? place : { ...place, path: describeMatch(own.match) };
  },

  async look(pool, request) {
    const { lookAtImagePool } = await import('./look.ts');
    const { match } = pool.own;
    if (match === undefined) return lookAtImagePool(pool, request);
    const { lookOnDisk } = await import('../../location/match/look.ts');
    return lookOnDisk({ ...request, poolName: pool.name, match, holds: 'xfs' }, (path) =>
      lookAtImagePool({ ...pool, own: { location: { type: 'device', path } } }, request),
    );
  },

  async checkNode(queue) {
    const { checkNode } = await import('./check-node.ts');
    return checkNode(queue);
  },
};
