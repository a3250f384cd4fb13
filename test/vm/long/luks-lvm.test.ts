import { describe, test } from 'node:test';
import { Scratch } from '../../support/scratch.ts';
import { VolatileDisk } from '../disk/volatile-disk.ts';
import { succeedsInGuest } from '../luks/guest.ts';
import { bootVirtualMachine } from '../machine/virtual-machine.ts';

describe('encryption with LUKS over logical volumes', () => {
  test('X01: they are used, grow, are copied, and are unreadable when they are deleted', async (t) => {
    using scratch = new Scratch('vm');
    using disk = new VolatileDisk(scratch, { name: 'group', sizeBytes: 4 * 2 ** 30 });
    await using vm = await bootVirtualMachine({ scratch, disks: [disk] });
    const said = await succeedsInGuest(vm, 'lvm-in-guest.ts', '/dev/vda');
    t.diagnostic(/^ℹ pass .*$/m.exec(said)?.[0] ?? said.slice(-200));
  });
});
