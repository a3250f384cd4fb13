import { describe, test } from 'node:test';
import { passed, succeedsInGuest, withMachine } from './luks/guest.ts';

describe('volumes that move to another node, in a kernel with device-mapper', () => {
  for (const thin of [[], ['thin']]) {
    test(`from images to ${thin.join()} logical volumes of one node and of another, and back`, async (t) => {
      await withMachine({}, async (vm) => {
        await vm.run('ip link set lo up');
        const groups = [];
        for (const name of ['b', 'c']) {
          const made = await vm.run(`truncate -s 2560M /xfs/${name}.img && losetup --find --show /xfs/${name}.img`);
          groups.push(made.trim());
        }
        t.diagnostic(passed(await succeedsInGuest(vm, 'nodes-in-guest', '/xfs', ...groups, ...thin)));
      });
    });
  }
});
