import { mappedDevice } from '../../../kernel/block/device-mapper.ts';
import { parseVolumeId } from '../../../volume/id.ts';
import { seenVolume } from '../../device-content.ts';
import type { PoolKind } from '../../kind.ts';
import type { Seen, SeenVolume } from '../../pool.ts';
import { type LvmOptions, lvmKeys, readLvmOptions } from './config.ts';
import { idOfLvName } from './names.ts';

/** Volumes as logical volumes of a volume group, at the speed of its disks. */
export const lvmKind: PoolKind<LvmOptions> = {
  commonKeys: ['reserve', 'defaultFilesystem', 'undelete', 'trim', 'sickAfter', 'encryption', 'labels'],
  ownKeys: lvmKeys,
  keysBelow: { overcommit: 'thinPool' },
  read: readLvmOptions,
  claims: ({ own: { devices, volumeGroup } }) => [
    ...(volumeGroup === '' ? [] : [{ type: 'device', path: `/dev/${volumeGroup}`, key: 'volumeGroup' } as const]),
    ...devices.map((path) => ({ type: 'device', path, key: 'devices' }) as const),
  ],

  async open({ name, own }, context) {
    const { openLvmBackend } = await import('./open.ts');
    if (own.match === undefined) return openLvmBackend({ ...context, ...own, name });
    const { diskOfPool } = await import('../../location/match/one-disk.ts');
    const matched = await diskOfPool({ ...context, poolName: name, match: own.match, holds: 'LVM2_member' });
    return openLvmBackend({ ...context, ...own, devices: [matched.path], matched, name });
  },

  volumeByName: lvmVolumeByName,

  place: ({ own }) => ({ type: 'volume group', path: own.volumeGroup }),

  async look(pool, request) {
    const { lookAtLvmPool } = await import('./look.ts');
    const { match } = pool.own;
    if (match === undefined) return lookAtLvmPool(pool, request);
    const { lookOnDisk } = await import('../../location/match/look.ts');
    return lookOnDisk({ ...request, poolName: pool.name, match, holds: 'LVM2_member' }, (path) =>
      lookAtLvmPool({ ...pool, own: { ...pool.own, devices: [path] } }, request),
    );
  },

  async checkNode(queue) {
    const { checkNode } = await import('./check-node.ts');
    return checkNode(queue);
  },
};

/** The name of a logical volume of ours, at the end of that of its device: see `mappedName`. */
const lvNameAtEnd = /[^-]-(vol--[a-z2-7]{26}\.[0-9a-f]{8})$/;

/** The volume whose device is seen, in any volume group. */
function lvmVolumeByName(seen: Seen): SeenVolume | undefined {
  const { device } = seen;
  const mapped = device === undefined ? undefined : mappedDevice(device);
  if (mapped === undefined || !mapped.uuid.startsWith('LVM-')) return undefined;
  const lvName = lvNameAtEnd.exec(mapped.name)?.[1]?.replaceAll('--', '-') ?? '';
  const id = parseVolumeId(idOfLvName(lvName) ?? '');
  return id && seenVolume(id, seen);
}
