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
  using scratch = new Scratch('vm');
  const options = { sizeBytes: 128 * 2 ** 20, bus: 'scsi' } as const;
  using first = new VolatileDisk(scratch, { name: 'first', ...options });
  using second = new VolatileDisk(scratch, { name: 'second', ...options });
  using third = new VolatileDisk(scratch, { name: 'third', ...options });
  await using vm = await bootVirtualMachine({ scratch, disks: [first, second, third] });
  const disks = ['/dev/sda', '/dev/sdb', '/dev/sdc'];
  const areThere = disks.map((disk) => `[ -b ${disk} ]`).join(' && ');
  await vm.run(`modprobe -a virtio_scsi sd_mod dm-crypt && until ${areThere}; do sleep 0.1; done`);
  return await succeeds(vm, [program, ...words], disks);
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
  using scratch = new Scratch('vm');
  const options = { sizeBytes: diskBytes, bus: 'scsi' } as const;
  using first = new VolatileDisk(scratch, { name: 'first', ...options });
  using second = new VolatileDisk(scratch, { name: 'second', ...options });
  using third = new VolatileDisk(scratch, { name: 'third', ...options });
  await using vm = await bootVirtualMachine({ scratch, disks: [first, second, third] });
  const disks = ['/dev/sda', '/dev/sdb', '/dev/sdc'];
  const areThere = disks.map((disk) => `[ -b ${disk} ]`).join(' && ');
  await vm.run(`modprobe -a virtio_scsi sd_mod dm-crypt && until ${areThere}; do sleep 0.1; done`);
  const version = await vm.run(`${vm.newerLvmDirectory}/lvm version`);
  assert.match(version, /LVM version: +2\.03\.(2[6-9]|[3-9][0-9])/);
  const chosen = [`--test-name-pattern='${pattern}'`];
  return await succeeds(vm, [program, ...words], disks, { path: vm.newerLvmDirectory, options: chosen });
}

interface Way {
  /** Comes first in PATH. */
  readonly path?: string;
  /** Of node. */
  readonly options?: readonly string[];
}

async function succeeds(
  vm: VirtualMachine,
  words: readonly string[],
  disks: readonly string[],
  { options = [], path }: Way = {},
): Promise<string> {
  const before = path === undefined ? '' : `PATH=${path}:$PATH `;
  const program = `${await bundleForGuest()}${[...words, ...disks].join(' ')}`;
  const command = `${before}${[process.execPath, ...options, program].join(' ')}`;
  const { code, stderr, stdout } = await vm.attempt(command, { timeoutMs });
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  return /^ℹ pass .*$/m.exec(stdout)?.[0] ?? stdout.slice(-200);
}
