import { describe, test } from 'node:test';
import { passed, succeedsInGuest, withMachine } from './luks/guest.ts';

describe('encryption with LUKS in a kernel that has it', () => {
  test('X01: keys, errors, changes of keys, what is gone, and how often cryptsetup runs', async (t) => {
    await withMachine({}, async (vm) => {
      await t.test('over images', async (t) =>
        t.diagnostic(passed(await succeedsInGuest(vm, 'layer-in-guest', '/xfs'))),
      );
      await t.test('over logical volumes', async (t) =>
        t.diagnostic(passed(await succeedsInGuest(vm, 'lvm-in-guest', '/dev/vdb'))),
      );
    });
  });
});
