import assert from 'node:assert/strict';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { bundlePrograms } from '../machine/bundle.ts';
import { bootVirtualMachine, type VirtualMachine } from '../machine/virtual-machine.ts';
import { makeServer, type NfsServerProgram, nfsServer, nfsServerCommand } from './server.ts';

const sizeBytes = 4 * 2 ** 30;
/** On a busy machine; alone it takes a few minutes. */
const timeoutMs = 1800_000;

/** All that run in the virtual machine. */
export const programs = [
  'pool-in-guest',
  'faults-in-guest',
  'lock-in-guest',
  'killed-in-guest',
  'taken-over-in-guest',
  'mortal',
  'node-killed-in-guest',
  'mortal-node',
];

/** Works with a machine that has an NFS server at 10.77.0.1, which exports a filesystem on a disk. */
export async function withNfsServer<T>(
  work: (vm: VirtualMachine) => Promise<T>,
  server: NfsServerProgram = 'kernel',
): Promise<T> {
  using scratch = new Scratch('vm');
  using disk = new VolatileDisk(scratch, { name: 'export', sizeBytes });
  await using vm = await bootVirtualMachine({ scratch, disks: [disk] });
  await vm.run(nfsServer(vm, makeServer('/dev/vda', server)));
  return await work(vm);
}

/** Runs a program of this directory in such a machine. @returns its last words */
export async function succeedsOnNfs(name: string, server: NfsServerProgram = 'kernel'): Promise<string> {
  const directory = await bundlePrograms('nfs', programs);
  return await withNfsServer(async (vm) => {
    // Tests start the one, and change the other.
    const environment = `HOLDFAST_TEST_STATD='${nfsServer(vm, 'statd')}' HOLDFAST_TEST_SERVER='${nfsServerCommand(vm)}'`;
    const command = `${environment} ${process.execPath} ${directory}${name}.mjs`;
    const { code, stderr, stdout } = await vm.attempt(command, { timeoutMs });
    const log = code === 0 || server === 'kernel' ? '' : await vm.run('tail -n 50 /tmp/ganesha.log');
    assert.equal(code, 0, `${stdout}\n${stderr}\n${log}\n${vm.console()}`);
    return `${name}: ${/^ℹ pass .*$/m.exec(stdout)?.[0] ?? stdout.slice(-200)}`;
  }, server);
}
