import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Scratch } from '../support/scratch.ts';
import { VolatileDisk } from './disk/volatile-disk.ts';
import { bundleForGuest } from './lvm/bundle.ts';
import { bootVirtualMachine, type VirtualMachine } from './machine/virtual-machine.ts';

const sizeBytes = 4 * 2 ** 30;

/** A machine with two blank disks, and real LVM. */
async function withDisks(work: (vm: VirtualMachine, disks: readonly [VolatileDisk, VolatileDisk]) => Promise<void>) {
  using scratch = new Scratch('vm');
  using first = new VolatileDisk(scratch, { name: 'first', sizeBytes });
  using second = new VolatileDisk(scratch, { name: 'second', sizeBytes });
  await using vm = await bootVirtualMachine({ scratch, disks: [first, second] });
  await work(vm, [first, second]);
}

/** On a busy machine; alone it takes a few minutes. */
const patienceMs = 3600_000;

describe('pools in a volume group', () => {
  test('take as few commands of LVM as the document says', async (t) => {
    await withDisks(async (vm) => {
      const command = `${process.execPath} ${bundleForGuest()}processes-in-guest.mjs /dev/vda /dev/vdb`;
      const { code, stderr, stdout } = await vm.attempt(command, { timeoutMs: patienceMs });
      assert.equal(code, 0, `${stdout}\n${stderr}`);
      t.diagnostic(/^ℹ pass .*$/m.exec(stdout)?.[0] ?? stdout.slice(-200));
    });
  });
});
