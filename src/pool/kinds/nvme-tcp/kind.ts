import { fabricsPath, hasFabrics, nvmeSubsystem } from '../../../kernel/block/nvme.ts';
import { sameDevice } from '../../../kernel/device.ts';
import { accessModes, singleNodeModes } from '../../../volume/capability.ts';
import { InvalidArgument } from '../../../volume/errors.ts';
import { isServed } from '../../../volume/filesystem.ts';
import type { NodeKind } from '../../node-side.ts';
import { fail, ok } from '../../sight.ts';
import { nvmeKeys, parseNvmeContext } from './context.ts';
import { namespacesOf } from './namespaces.ts';

/** Namespaces of NVMe over TCP that a PersistentVolume names. */
export const nvmeTcpNodeKind: NodeKind = {
  name: 'nvme-tcp',
  traits: { detaching: 'explicit', accessModes },
  namingKeys: ['nqn'],
  keys: nvmeKeys,
  read(context, { access, fsType }) {
    parseNvmeContext(context);
    if (access === 'block') return { content: { type: 'block' } };
    if (isServed(fsType)) throw new InvalidArgument(`an nvme-tcp volume holds a filesystem itself: ${fsType} is none.`);
    // Two nodes that have one of these filesystems mounted destroy it, also if both only read.
    return { content: { type: 'mount', fsType: fsType ?? 'ext4' }, accessModes: singleNodeModes };
  },
  shows({ context }, { device, mount }) {
    const parsed = parseNvmeContext(context);
    const isIt = namespacesOf(nvmeSubsystem(parsed.nqn), parsed).some((each) => sameDevice(each.device, device));
    if (!isIt) return undefined;
    return mount === undefined || mount.root === '/' ? 'whole' : 'part';
  },
  serverOf: ({ context }) => parseNvmeContext(context).nqn,
  async open(context) {
    const { openNvmeSide } = await import('./side.ts');
    return openNvmeSide(context);
  },
  async checkNode() {
    const check = 'NVMe over TCP';
    if (hasFabrics()) return [ok(check, `the kernel connects by ${fabricsPath}`)];
    const remedy = "Load the module (modprobe nvme-tcp). A container must have the host's /dev.";
    return [fail(check, `there is no ${fabricsPath}`, remedy)];
  },
};
