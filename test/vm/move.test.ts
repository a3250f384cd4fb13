import { describe, test } from 'node:test';
import { passed, succeedsInGuest, withMachine } from './luks/guest.ts';

describe('volumes that move to another pool, in a kernel with device-mapper', () => {
  test('between images and logical volumes, thin or not, encrypted or not', async (t) => {
    await withMachine({}, async (vm) => {
      for (const thin of [[], ['thin']]) {
        t.diagnostic(passed(await succeedsInGuest(vm, 'move-in-guest', '/xfs', '/dev/vdb', ...thin)));
        await vm.run('lvm vgs --noheadings -o vg_name | xargs lvm vgremove --force --force --yes && rm -rf /xfs/move*');
      }
    });
  });
});
