import assert from 'node:assert/strict';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { makeMemoryDisks } from '../machine/memory-disks.ts';
import { bootVirtualMachine, type VirtualMachine } from '../machine/virtual-machine.ts';
import { bundleForGuest } from './bundle.ts';

const sizeBytes = 4 * 2 ** 30;
/** On a busy machine; alone it takes a few minutes. */
const timeoutMs = 3600_000;

/**
 * Runs one of the programs of this directory in a machine with three small disks that can be pulled, from within, too.
 * @returns its last words
 */
export async function succeedsWithPullableDisks(program: string, ...words: readonly string[]): Promise<string> {
  return await withScsiDisks(128 * 2 ** 20, (vm, disks) => succeeds(vm, [program, ...words], disks));
}

/** The same in a mount namespace of its own, as in a container, of a node that has the LVM of an older Debian. */
export async function succeedsBesideOlderLvm(program: string): Promise<string> {
  return await withScsiDisks(128 * 2 ** 20, async (vm, disks) => {
    const lvm = '/usr/sbin/lvm';
    await vm.run(`mount --bind ${vm.olderLvmDirectory}/lvm ${lvm}`);
    return await succeeds(vm, [program], disks, { within: `unshare --mount sh -c 'umount ${lvm} && exec "$@"' sh` });
  });
}

async function withScsiDisks(
  sizeBytes: number,
  work: (vm: VirtualMachine, disks: readonly string[]) => Promise<string>,
): Promise<string> {
  using scratch = new Scratch('vm');
  const options = { sizeBytes, bus: 'scsi' } as const;
  using first = new VolatileDisk(scratch, { name: 'first', ...options });
  using second = new VolatileDisk(scratch, { name: 'second', ...options });
  using third = new VolatileDisk(scratch, { name: 'third', ...options });
  await using vm = await bootVirtualMachine({ scratch, disks: [first, second, third] });
  const disks = ['/dev/sda', '/dev/sdb', '/dev/sdc'];
  const areThere = disks.map((disk) => `[ -b ${disk} ]`).join(' && ');
  await vm.run(`modprobe -a virtio_scsi sd_mod dm-crypt && until ${areThere}; do sleep 0.1; done`);
  return await work(vm, disks);
}

/** Runs one of the programs of this directory in a machine with two blank disks and real LVM. @returns its last words */
export async function succeedsInGuest(program: string, ...words: readonly string[]): Promise<string> {
  using scratch = new Scratch('vm');
  using first = new VolatileDisk(scratch, { name: 'first', sizeBytes });
  using second = new VolatileDisk(scratch, { name: 'second', sizeBytes });
  await using vm = await bootVirtualMachine({ scratch, disks: [first, second] });
  return await succeeds(vm, [program, ...words], ['/dev/vda', '/dev/vdb']);
}

/** The same with one disk of the machine's memory, for what does not cut the power. */
export async function succeedsInMemory(program: string, ...words: readonly string[]): Promise<string> {
  using scratch = new Scratch('vm');
  await using vm = await bootVirtualMachine({ scratch, memoryMiB: 1536 });
  await vm.run(makeMemoryDisks({ count: 1, sizeMiB: 512 }));
  return await succeeds(vm, [program, ...words], ['/dev/sda']);
}

/**
 * Runs those of a program's tests whose names match, with the LVM of a newer Debian.
 * @returns its last words
 */
export async function succeedsWithNewerLvm(
  diskBytes: number,
  pattern: string,
  program: string,
  ...words: readonly string[]
): Promise<string> {
  return await withScsiDisks(diskBytes, async (vm, disks) => {
    const version = await vm.run(`${vm.newerLvmDirectory}/lvm version`);
    assert.match(version, /LVM version: +2\.03\.(2[6-9]|[3-9][0-9])/);
    const chosen = [`--test-name-pattern='${pattern}'`];
    return await succeeds(vm, [program, ...words], disks, { path: vm.newerLvmDirectory, options: chosen });
  });
}

interface Way {
  /** Comes first in PATH. */
  readonly path?: string;
  /** Of node. */
  readonly options?: readonly string[];
  /** A command that runs it. */
  readonly within?: string;
}

async function succeeds(
  vm: VirtualMachine,
  words: readonly string[],
  disks: readonly string[],
  { options = [], path, within = '' }: Way = {},
): Promise<string> {
  const before = path === undefined ? '' : `PATH=${path}:$PATH `;
  const program = `${await bundleForGuest()}${[...words, ...disks].join(' ')}`;
  const command = `${before}${[within, process.execPath, ...options, program].join(' ')}`;
  const { code, stderr, stdout } = await vm.attempt(command, { timeoutMs });
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  return /^ℹ pass .*$/m.exec(stdout)?.[0] ?? stdout.slice(-200);
}
