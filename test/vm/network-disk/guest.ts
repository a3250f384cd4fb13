import assert from 'node:assert/strict';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { bundlePrograms } from '../machine/bundle.ts';
import { startUdev } from '../machine/udev.ts';
import { bootVirtualMachine, type VirtualMachine } from '../machine/virtual-machine.ts';

/** On a busy machine; alone it takes a few minutes. */
const timeoutMs = 1800_000;

interface GuestOptions {
  /** The command of the shell that comes first. */
  readonly prepare?: (vm: VirtualMachine) => string;
  /** In a separate mount namespace, as in a container that sees the processes of its node. */
  readonly contained?: true;
  readonly hasNewerKernel?: boolean;
  /** With udev, which has seen all devices before. */
  readonly udev?: true;
}

/** Runs a program of a directory in a machine with a disk at /target for the target's images. @returns its last words */
export async function succeedsWithTarget(
  area: 'gluster' | 'iscsi' | 'nvme',
  name: string,
  { contained, hasNewerKernel = false, prepare, udev }: GuestOptions = {},
): Promise<string> {
  const directory = await bundlePrograms(area, [name, 'mortal']);
  using scratch = new Scratch('vm');
  using disk = new VolatileDisk(scratch, { name: 'target', sizeBytes: 2 * 2 ** 30 });
  await using vm = await bootVirtualMachine({ scratch, disks: [disk], hasNewerKernel });
  await vm.run('mkfs.ext4 -q /dev/vda && mkdir -p /target && mount /dev/vda /target');
  if (udev) await startUdev(vm);
  if (prepare !== undefined) await vm.run(prepare(vm));
  const command = `${process.execPath} ${directory}${name}.mjs`;
  const inside = contained ? `unshare --mount --propagation private ${command}` : command;
  const { code, stderr, stdout } = await vm.attempt(inside, { timeoutMs });
  assert.equal(code, 0, `${stdout}\n${stderr}\n${vm.console()}`);
  return /^ℹ pass .*$/m.exec(stdout)?.[0] ?? stdout.slice(-200);
}
