import assert from 'node:assert/strict';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { bootVirtualMachine } from '../machine/virtual-machine.ts';
import { bundleForGuest } from './bundle.ts';

/** With the 32 MiB that its metadata takes, and room for a few volumes. */
const sizeBytes = 160 * 2 ** 20;
/** On a busy machine; alone it takes a few minutes. */
const timeoutMs = 3600_000;
const names = ['first', 'second', 'third'];

/**
 * Runs tests in a machine with blank disks that have names, and one without.
 * @param which which of them, as options of node: all unless it says so @returns their last words
 */
export async function succeedsWithBlankDisks(which = ''): Promise<string> {
  using scratch = new Scratch('vm');
  using stack = new DisposableStack();
  const nameless = stack.use(new VolatileDisk(scratch, { name: 'nameless', sizeBytes }));
  const named = names.map((name) => stack.use(new VolatileDisk(scratch, { name, sizeBytes, bus: 'scsi' })));
  await using vm = await bootVirtualMachine({ scratch, disks: [nameless, ...named] });
  await vm.run(
    `modprobe -a virtio_scsi sd_mod dm_mod && until [ $(ls -d /sys/block/sd* 2>/dev/null | wc -l) = ${names.length} ]; do sleep 0.1; done`,
  );
  const words = [...names.map((name, index) => `${name}=/dev/sd${'abc'[index]}`), 'nameless=/dev/vda'].join(' ');
  const { code, stderr, stdout } = await vm.attempt(
    `${process.execPath} ${which} ${await bundleForGuest()}devices-in-guest.mjs ${words}`,
    { timeoutMs },
  );
  assert.equal(code, 0, `${stdout}\n${stderr}\n${vm.console()}`);
  return /^ℹ pass .*$/m.exec(stdout)?.[0] ?? stdout.slice(-200);
}
