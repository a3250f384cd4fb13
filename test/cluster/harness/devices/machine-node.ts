import { readFileSync, writeFileSync } from 'node:fs';
import type { Scratch } from '../../../support/scratch.ts';
import { bundlePrograms } from '../../../vm/machine/bundle.ts';
import type { RunningCommand } from '../../../vm/machine/run-command.ts';
import type { VirtualMachine } from '../../../vm/machine/virtual-machine.ts';
import type { ApiServer } from '../api-server.ts';
import type { NodePlan } from './node-in-guest.ts';

export const kubeletPort = 10250;
/** In the virtual machine. */
export const nodeDirectory = '/data';

/** Commands of the shell that bring a machine with a network card to the network, with the node's directory on a disk with ext4. */
export function becomeNodeCommands(disk: string): string[] {
  return [
    // As systemd has it.
    'mount --make-rshared /',
    'mount -t cgroup2 cgroup2 /sys/fs/cgroup',
    ...networkCommands,
    `mkdir -p ${nodeDirectory} && mount ${disk} ${nodeDirectory}`,
  ];
}

export const networkCommands: readonly string[] = [
  'busybox ip link set lo up',
  'busybox ip address add 10.0.2.15/24 dev eth0',
  'busybox ip link set eth0 up',
];

/** Starts containerd and the kubelet there. */
export async function startNode(vm: VirtualMachine, scratch: Scratch, plan: NodePlan): Promise<RunningCommand> {
  const bundle = await bundlePrograms('../cluster/harness/devices', ['node-in-guest']);
  writeFileSync(scratch.join('node.json'), JSON.stringify(plan), { mode: 0o600 });
  return vm.start(
    `${process.execPath} ${bundle}/node-in-guest.mjs ${scratch.join('node.json')}`,
    scratch.join('node.log'),
  );
}

/** With the certificate in it, and not its path. */
export function writeKubeconfig(scratch: Scratch, server: ApiServer, nodeName: string): string {
  const text = readFileSync(server.kubeconfig(`system:node:${nodeName}`), 'utf8');
  const data = readFileSync(server.certificate).toString('base64');
  const path = scratch.join('kubeconfig');
  const named = JSON.stringify({ 'certificate-authority': server.certificate }).slice(1, -1);
  writeFileSync(path, text.replace(named, `"certificate-authority-data":${JSON.stringify(data)}`), { mode: 0o600 });
  return path;
}
