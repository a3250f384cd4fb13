import assert from 'node:assert/strict';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { bundlePrograms } from '../machine/bundle.ts';
import { bootVirtualMachine, type VirtualMachine } from '../machine/virtual-machine.ts';

/** On a busy machine; alone it takes a few minutes. */
const timeoutMs = 1800_000;

/**
 * Runs a program of a directory in a machine with a disk at /target for the target's images. @returns its last words
 * @param prepare the command of the shell that comes first
 */
export async function succeedsWithTarget(
  area: 'iscsi' | 'nvme',
  name: string,
  prepare: (vm: VirtualMachine) => string = () => 'true',
): Promise<string> {
  const directory = await bundlePrograms(area, [name, 'mortal']);
  using scratch = new Scratch('vm');
  using disk = new VolatileDisk(scratch, { name: 'target', sizeBytes: 2 * 2 ** 30 });
  await using vm = await bootVirtualMachine({ scratch, disks: [disk] });
  await vm.run('mkfs.ext4 -q /dev/vda && mkdir -p /target && mount /dev/vda /target');
  await vm.run(prepare(vm));
  const { code, stderr, stdout } = await vm.attempt(`${process.execPath} ${directory}${name}.mjs`, { timeoutMs });
  assert.equal(code, 0, `${stdout}\n${stderr}\n${vm.console()}`);
  return /^ℹ pass .*$/m.exec(stdout)?.[0] ?? stdout.slice(-200);
}
