import { describe, test } from 'node:test';
import { passed, succeedsInGuest, withMachine } from './luks/guest.ts';

describe('volumes that move to another pool, in a kernel with device-mapper', () => {
  test('between images and logical volumes, encrypted or not', async (t) => {
    await withMachine({}, async (vm) => {
      t.diagnostic(passed(await succeedsInGuest(vm, 'move-in-guest', '/xfs', '/dev/vdb')));
    });
  });
});
