import { describe, test } from 'node:test';
import { passed, succeedsInGuest, withMachine } from './luks/guest.ts';

describe('encrypted disks that PersistentVolumes name, over loop devices', () => {
  test('are made, opened, grown and let go where a program or a cloud attaches them', async (t) => {
    await withMachine({}, async (vm) => {
      // Programs lie there. As systemd has it: for root alone.
      await vm.run('chmod go-w /run');
      t.diagnostic(passed(await succeedsInGuest(vm, 'attached-in-guest')));
    });
  });

  test('leave nothing behind at an unstage, and are made for writers alone', async (t) => {
    await withMachine({}, async (vm) => t.diagnostic(passed(await succeedsInGuest(vm, 'named-in-guest', '/xfs'))));
  });
});
