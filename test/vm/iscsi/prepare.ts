import { fileURLToPath } from 'node:url';
import type { VirtualMachine } from '../machine/virtual-machine.ts';

const script = fileURLToPath(new URL('target.sh', import.meta.url));

/** A command of the shell that gives the machine open-iscsi. */
export const prepareIscsi = (vm: VirtualMachine) => `sh ${script} install ${vm.iscsiDirectory}`;

/** The same with multipathd. */
export const prepareMultipath = (vm: VirtualMachine) =>
  `${prepareIscsi(vm)} && sh ${script} install-multipath ${vm.multipathDirectory}`;
