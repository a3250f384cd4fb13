import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Scratch } from '../support/scratch.ts';
import { VolatileDisk } from './disk/volatile-disk.ts';
import { bootVirtualMachine, type VirtualMachine } from './machine/virtual-machine.ts';

const sizeBytes = 4 * 2 ** 30;
const timeoutMs = 1_800_000;
const mount = 'mkdir -p /xfs && mount /dev/vda /xfs && modprobe dm-crypt';

/** A machine with an XFS at /xfs. */
async function withDisk(work: (vm: VirtualMachine) => Promise<void>): Promise<void> {
  using scratch = new Scratch('vm');
  using disk = new VolatileDisk(scratch, { name: 'xfs', sizeBytes });
  await using vm = await bootVirtualMachine({ scratch, disks: [disk] });
  await vm.run(`mkfs.xfs -q /dev/vda && ${mount}`);
  await work(vm);
}

function program(name: string, ...args: string[]): string {
  const path = fileURLToPath(new URL(`luks/${name}`, import.meta.url));
  return [process.execPath, path, ...args].join(' ');
}

async function succeeds(vm: VirtualMachine, command: string): Promise<string> {
  const { code, stderr, stdout } = await vm.attempt(command, { timeoutMs });
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  return stdout;
}

describe('encryption with LUKS in a kernel that has it', () => {
  test('X01: keys, errors, changes of keys, what is gone, and how often cryptsetup runs', async (t) => {
    await withDisk(async (vm) => {
      const said = await succeeds(vm, program('layer-in-guest.ts', '/xfs'));
      t.diagnostic(/^ℹ pass .*$/m.exec(said)?.[0] ?? said.slice(-200));
    });
  });
});
