import { fileURLToPath } from 'node:url';
import type { VirtualMachine } from '../machine/virtual-machine.ts';

type Command =
  | 'start'
  | 'statd'
  | 'stop'
  | 'cut'
  | 'heal'
  | 'slow'
  | 'fast'
  | 'second-client'
  | 'cut-second'
  | 'heal-second'
  | `make ${string}`;

/** The kernel's, or nfs-ganesha. */
export type NfsServerProgram = 'kernel' | 'ganesha';

/** The command that makes a filesystem on a device and exports it. */
export function makeServer(device: string, program: NfsServerProgram): Command {
  return program === 'kernel' ? `make ${device}` : `make ${device} ganesha`;
}

/** The command of the shell in a virtual machine that does something to its NFS server (server.sh). */
export function nfsServer(vm: VirtualMachine, command: Command): string {
  return `${nfsServerCommand(vm)} ${command}`;
}

/** The same without its last word. */
export function nfsServerCommand(vm: VirtualMachine): string {
  return `sh ${fileURLToPath(new URL('server.sh', import.meta.url))} ${vm.nfsDirectory}`;
}
