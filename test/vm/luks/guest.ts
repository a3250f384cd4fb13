import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { bootVirtualMachine, type VirtualMachine } from '../machine/virtual-machine.ts';

const sizeBytes = 4 * 2 ** 30;
const timeoutMs = 1_800_000;

/** A machine with dm-crypt and an XFS at /xfs. */
export async function withXfs(work: (vm: VirtualMachine) => Promise<void>): Promise<void> {
  using scratch = new Scratch('vm');
  using disk = new VolatileDisk(scratch, { name: 'xfs', sizeBytes });
  await using vm = await bootVirtualMachine({ scratch, disks: [disk] });
  await vm.run('mkfs.xfs -q /dev/vda');
  await mountXfs(vm);
  await work(vm);
}

/** After a boot. */
export async function mountXfs(vm: VirtualMachine): Promise<void> {
  await vm.run('mkdir -p /xfs && mount /dev/vda /xfs && modprobe dm-crypt');
}

/** Runs one of the programs of this directory. @returns what it printed */
export async function succeedsInGuest(vm: VirtualMachine, name: string, ...args: string[]): Promise<string> {
  const path = fileURLToPath(new URL(name, import.meta.url));
  const { code, stderr, stdout } = await vm.attempt([process.execPath, path, ...args].join(' '), { timeoutMs });
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  return stdout;
}
