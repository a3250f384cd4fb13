import { describe, test } from 'node:test';
import { succeedInGuest } from '../disk-kind/guest.ts';

describe('pools of a disk', () => {
  test('keep the contract of pools and devices', async (t) => {
    t.diagnostic(await succeedInGuest('pool-in-guest'));
  });
});
