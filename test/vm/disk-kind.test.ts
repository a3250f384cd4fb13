import { describe, test } from 'node:test';
import { succeedInGuest } from './disk-kind/guest.ts';

describe('pools of a disk', () => {
  test('take no disk that is not blank and free, and write to none of them', async (t) => {
    t.diagnostic(await succeedInGuest('refusals-in-guest'));
  });
});
