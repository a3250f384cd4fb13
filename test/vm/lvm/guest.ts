import assert from 'node:assert/strict';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { bootVirtualMachine } from '../machine/virtual-machine.ts';
import { bundleForGuest } from './bundle.ts';

const sizeBytes = 4 * 2 ** 30;
/** On a busy machine; alone it takes a few minutes. */
const timeoutMs = 3600_000;

/** Runs one of the programs of this directory in a machine with two blank disks and real LVM. @returns its last words */
export async function succeedsInGuest(program: string, ...words: readonly string[]): Promise<string> {
  using scratch = new Scratch('vm');
  using first = new VolatileDisk(scratch, { name: 'first', sizeBytes });
  using second = new VolatileDisk(scratch, { name: 'second', sizeBytes });
  await using vm = await bootVirtualMachine({ scratch, disks: [first, second] });
  const command = `${process.execPath} ${await bundleForGuest()}${[program, ...words].join(' ')} /dev/vda /dev/vdb`;
  const { code, stderr, stdout } = await vm.attempt(command, { timeoutMs });
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  return /^ℹ pass .*$/m.exec(stdout)?.[0] ?? stdout.slice(-200);
}
