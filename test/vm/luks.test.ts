import { describe, test } from 'node:test';
import { succeedsInGuest, withXfs } from './luks/guest.ts';
import { liveEncrypted, setup } from './luks/whole-driver.ts';
import { startNode } from './node/start-node.ts';

describe('encryption with LUKS in a kernel that has it', () => {
  test('X01: keys, errors, changes of keys, what is gone, and how often cryptsetup runs', async (t) => {
    await withXfs(async (vm) => {
      const said = await succeedsInGuest(vm, 'layer-in-guest.ts', '/xfs');
      t.diagnostic(/^ℹ pass .*$/m.exec(said)?.[0] ?? said.slice(-200));
    });
  });

  test('X01: through the whole driver, with keys from Secrets that are found nowhere else', async (t) => {
    await using node = await startNode(t, setup);
    await liveEncrypted(node);
  });
});
