import { mappedDevice } from '../../../kernel/block/device-mapper.ts';
import { seenVolume } from '../../device-content.ts';
import type { PoolKind } from '../../kind.ts';
import { describeMatch } from '../../location/match/read-match.ts';
import type { Seen, SeenVolume } from '../../pool.ts';
import { type DiskOptions, diskKeys, readDiskOptions } from './config.ts';
import { lookApart } from './match/expand.ts';
import { idOfObject, objectOfMapped } from './names.ts';

/** A disk or partition that is one volume, for users that want a whole spindle. */
export const diskKind: PoolKind<DiskOptions> = {
  commonKeys: ['defaultFilesystem', 'undelete', 'sickAfter', 'encryption', 'labels'],
  ownKeys: diskKeys,
  read: readDiskOptions,
  claims: ({ own }) => (own.device === '' ? [] : [{ type: 'device', path: own.device, key: 'device' }]),

  async open(pool, context) {
    const { name, own } = pool;
    if (own.identity !== undefined) {
      const { openMatched } = await import('./match/open-matched.ts');
      return openMatched(pool, context);
    }
    const { openDiskBackend } = await import('./open.ts');
    return openDiskBackend({ ...context, ...own, name });
  },

  volumeByName: diskVolumeByName,

  place({ own }) {
    if (own.match !== undefined) return { type: 'disks', path: describeMatch(own.match) };
    return { type: 'disk', path: own.device === '' ? (own.identity ?? '') : own.device };
  },

  async look(pool, request) {
    const apart = lookApart(pool);
    if (apart !== undefined) return apart;
    const { lookAtDiskPool } = await import('./look.ts');
    return lookAtDiskPool(pool, request);
  },

  async checkNode(queue) {
    const { checkNode } = await import('./check-node.ts');
    return checkNode(queue);
  },
};

/** The volume whose device is seen, on any disk. */
function diskVolumeByName(seen: Seen): SeenVolume | undefined {
  const { device } = seen;
  const mapped = device === undefined ? undefined : mappedDevice(device);
  const id = mapped && idOfObject(objectOfMapped(mapped) ?? '');
  return id && seenVolume(id, seen);
}
