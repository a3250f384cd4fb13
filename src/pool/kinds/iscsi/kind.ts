import { iscsiSessions } from '../../../kernel/block/iscsi.ts';
import { sameDevice } from '../../../kernel/device.ts';
import { accessModes, singleNodeModes } from '../../../volume/capability.ts';
import { InvalidArgument } from '../../../volume/errors.ts';
import { isServed } from '../../../volume/filesystem.ts';
import type { NodeKind } from '../../node-side.ts';
import { isNamedOurs, lunsOf } from './connections.ts';
import { iscsiKeys, parseIscsiContext } from './context.ts';

/** Logical units of iSCSI that a PersistentVolume names. */
export const iscsiNodeKind: NodeKind = {
  name: 'iscsi',
  traits: { detaching: 'explicit', accessModes },
  namingKeys: ['iqn'],
  keys: iscsiKeys,
  read(context, { access, fsType }) {
    parseIscsiContext(context);
    if (access === 'block') return { content: { type: 'block' } };
    if (isServed(fsType)) throw new InvalidArgument(`an iscsi volume holds a filesystem itself: ${fsType} is none.`);
    // Two nodes that have one of these filesystems mounted destroy it, also if both only read.
    return { content: { type: 'mount', fsType: fsType ?? 'ext4' }, accessModes: singleNodeModes };
  },
  shows({ context }, { device, mount }) {
    const parsed = parseIscsiContext(context);
    const sessions = iscsiSessions(parsed.iqn).filter(isNamedOurs);
    if (!lunsOf(sessions, parsed).some((each) => sameDevice(each.device, device))) return undefined;
    return mount === undefined || mount.root === '/' ? 'whole' : 'part';
  },
  serverOf: ({ context }) => parseIscsiContext(context).iqn,
  async open(context) {
    const { openIscsiSide } = await import('./side.ts');
    return openIscsiSide(context);
  },
  async checkNode(queue) {
    const { checkNode } = await import('./check-node.ts');
    return checkNode(queue);
  },
};
