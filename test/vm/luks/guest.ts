import assert from 'node:assert/strict';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { bundlePrograms } from '../machine/bundle.ts';
import { bootVirtualMachine, type VirtualMachine } from '../machine/virtual-machine.ts';

const programs = [
  'attached-in-guest',
  'contract-in-guest',
  'crash-in-guest',
  'layer-in-guest',
  'lvm-in-guest',
  'move-in-guest',
  'named-in-guest',
  'nodes-in-guest',
  'power-in-guest',
];
const sizeBytes = 4 * 2 ** 30;
/** On a busy machine; alone it takes a few minutes. */
const timeoutMs = 3_600_000;

export interface EncryptingMachine {
  readonly filesystem?: 'xfs' | 'ext4';
  readonly memoryMiB?: number;
}

/** A machine with dm-crypt, a filesystem at /xfs or /ext4 (/dev/vda), and a blank disk (/dev/vdb). */
export async function withMachine(
  { filesystem = 'xfs', memoryMiB = 1024 }: EncryptingMachine,
  work: (vm: VirtualMachine) => Promise<void>,
): Promise<void> {
  using scratch = new Scratch('vm');
  using first = new VolatileDisk(scratch, { name: filesystem, sizeBytes: 1.5 * sizeBytes });
  // For a thin pool that has room to grow.
  using second = new VolatileDisk(scratch, { name: 'group', sizeBytes: 2 * sizeBytes });
  await using vm = await bootVirtualMachine({ scratch, disks: [first, second], memoryMiB });
  await vm.run(`mkfs.${filesystem} -q /dev/vda`);
  await prepare(vm, filesystem);
  await work(vm);
}

/** After a boot. */
export async function prepare(vm: VirtualMachine, filesystem: 'xfs' | 'ext4' = 'xfs'): Promise<void> {
  await vm.run(`mkdir -p /${filesystem} && mount /dev/vda /${filesystem} && modprobe dm-crypt`);
}

/** Runs one of the programs of this directory. @returns what it printed */
export async function succeedsInGuest(vm: VirtualMachine, name: string, ...args: string[]): Promise<string> {
  const path = `${await bundlePrograms('luks', programs)}${name}.mjs`;
  const { code, stderr, stdout } = await vm.attempt([process.execPath, path, ...args].join(' '), { timeoutMs });
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  return stdout;
}

/** How many of its tests passed, in its own words. */
export function passed(stdout: string): string {
  return /^ℹ pass .*$/m.exec(stdout)?.[0] ?? stdout.trim().slice(-200);
}
