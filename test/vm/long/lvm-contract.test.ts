import { describe, test } from 'node:test';
import { succeedsInGuest } from '../lvm/guest.ts';

describe('pools in a volume group', () => {
  test('keep the contract of pools and of devices', async (t) => {
    t.diagnostic(await succeedsInGuest('pool-in-guest.mjs'));
  });
});
