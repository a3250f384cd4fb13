import { iscsiSessions } from '../../../kernel/block/iscsi.ts';
import { sameDevice } from '../../../kernel/device.ts';
import { accessModes } from '../../../volume/capability.ts';
import { deviceContent, seenOnDevice } from '../../device-content.ts';
import type { NodeKind } from '../../node-side.ts';
import { isNamedOurs, lunsOf } from './connections.ts';
import { iscsiKeys, parseIscsiContext } from './context.ts';
import { devicesFor } from './multipath.ts';

/** Logical units of iSCSI that a PersistentVolume names. */
export const iscsiNodeKind: NodeKind = {
  name: 'iscsi',
  traits: { detaching: 'explicit', accessModes },
  namingKeys: ['iqn'],
  keys: iscsiKeys,
  read(context, demand) {
    parseIscsiContext(context);
    return deviceContent(demand, (fsType) => `an iscsi volume holds a filesystem itself: ${fsType} is none.`);
  },
  shows({ context }, { device, mount }) {
    const parsed = parseIscsiContext(context);
    const sessions = iscsiSessions(parsed.iqn).filter(isNamedOurs);
    if (!devicesFor(lunsOf(sessions, parsed)).some((each) => sameDevice(each.device, device))) return undefined;
    return seenOnDevice({ mount });
  },
  serverOf: ({ context }) => parseIscsiContext(context).iqn,
  diskOf({ context }) {
    const { iqn, lun } = parseIscsiContext(context);
    return `${iqn} ${lun}`;
  },
  async open(context) {
    const { openIscsiSide } = await import('./side.ts');
    return openIscsiSide(context);
  },
  async askServer({ context }) {
    const { reachTarget } = await import('../../network-disk/reach-portal.ts');
    return reachTarget(parseIscsiContext(context).portals);
  },
  async checkNode(queue) {
    const { checkNode } = await import('./check-node.ts');
    return checkNode(queue);
  },
};
