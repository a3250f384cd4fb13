import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { bundlePrograms } from '../machine/bundle.ts';
import { bootVirtualMachine, type VirtualMachine } from '../machine/virtual-machine.ts';

const sizeBytes = 4 * 2 ** 30;
/** On a busy machine; alone it takes a few minutes. */
const timeoutMs = 1800_000;

const programs = ['pool-in-guest'];

/** What a machine with an NFS server can be told. */
export interface NfsMachine {
  readonly vm: VirtualMachine;
  /** @param command of server.sh */
  server(command: 'start' | 'stop' | 'cut' | 'heal'): Promise<string>;
}

/** A machine with the kernel's NFS server at 10.77.0.1, which exports a filesystem on a disk. */
export async function withNfsServer<T>(work: (machine: NfsMachine) => Promise<T>): Promise<T> {
  using scratch = new Scratch('vm');
  using disk = new VolatileDisk(scratch, { name: 'export', sizeBytes });
  await using vm = await bootVirtualMachine({ scratch, disks: [disk] });
  const script = `sh ${fileURLToPath(new URL('server.sh', import.meta.url))} ${vm.nfsDirectory}`;
  await vm.run(`${script} make /dev/vda`);
  return await work({ vm, server: (command) => vm.run(`${script} ${command}`) });
}

/** Runs programs of this directory in such a machine. @returns their last words */
export async function succeedsOnNfs(...names: readonly string[]): Promise<string> {
  const directory = await bundlePrograms('nfs', programs);
  return await withNfsServer(async ({ vm }) => {
    const said: string[] = [];
    for (const name of names) {
      const { code, stderr, stdout } = await vm.attempt(`${process.execPath} ${directory}${name}.mjs`, { timeoutMs });
      assert.equal(code, 0, `${stdout}\n${stderr}\n${vm.console()}`);
      said.push(`${name}: ${/^ℹ pass .*$/m.exec(stdout)?.[0] ?? stdout.slice(-200)}`);
    }
    return said.join('; ');
  });
}
