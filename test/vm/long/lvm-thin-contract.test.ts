import { describe, test } from 'node:test';
import { succeedsInGuest } from '../lvm/guest.ts';

describe('pools of thin volumes', () => {
  test('keep the contract of pools and of devices', async (t) => {
    t.diagnostic(await succeedsInGuest('pool-in-guest.mjs', 'thin'));
  });
});
