import { describe, test } from 'node:test';
import { succeedsInGuest, withXfs } from './luks/guest.ts';

describe('encryption with LUKS in a kernel that has it', () => {
  test('X01: keys, errors, changes of keys, what is gone, and how often cryptsetup runs', async (t) => {
    await withXfs(async (vm) => {
      const said = await succeedsInGuest(vm, 'layer-in-guest.ts', '/xfs');
      t.diagnostic(/^ℹ pass .*$/m.exec(said)?.[0] ?? said.slice(-200));
    });
  });
});
