import type { PoolKind } from '../../kind.ts';
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
    return openImageBackend({ ...context, ...own, name });
  },

  volumeByName: imageByName,

  place: ({ name, own }, dataDirectory) => configuredPlace(dataDirectory, name, own.location),

  async look(pool, request) {
    const { lookAtImagePool } = await import('./look.ts');
    return lookAtImagePool(pool, request);
  },

  async checkNode(queue) {
    const { checkNode } = await import('./check-node.ts');
    return checkNode(queue);
  },
};
