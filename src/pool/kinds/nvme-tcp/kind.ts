import { fabricsPath, hasFabrics, nvmeSubsystem } from '../../../kernel/block/nvme.ts';
import { sameDevice } from '../../../kernel/device.ts';
import { accessModes } from '../../../volume/capability.ts';
import { deviceContent, seenOnDevice } from '../../device-content.ts';
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
  read(context, demand) {
    parseNvmeContext(context);
    return deviceContent(demand, (fsType) => `an nvme-tcp volume holds a filesystem itself: ${fsType} is none.`);
  },
  shows({ context }, { device, mount }) {
    const parsed = parseNvmeContext(context);
    const isIt = namespacesOf(nvmeSubsystem(parsed.nqn), parsed).some((each) => sameDevice(each.device, device));
    if (!isIt) return undefined;
    return seenOnDevice({ mount });
  },
  serverOf: ({ context }) => parseNvmeContext(context).nqn,
  diskOf({ context }) {
    const { identity, nqn } = parseNvmeContext(context);
    return `${nqn} ${identity.kind} ${identity.digits}`;
  },
  async open(context) {
    const { openNvmeSide } = await import('./side.ts');
    return openNvmeSide(context);
  },
  async askServer({ context }) {
    const { reachTarget } = await import('../../network-disk/reach-portal.ts');
    return reachTarget(parseNvmeContext(context).portals);
  },
  async checkNode() {
    const check = 'NVMe over TCP';
    if (hasFabrics()) return [ok(check, `the kernel connects by ${fabricsPath}`)];
    const remedy = "Load the module (modprobe nvme-tcp). A container must have the host's /dev.";
    return [fail(check, `there is no ${fabricsPath}`, remedy)];
  },
};
