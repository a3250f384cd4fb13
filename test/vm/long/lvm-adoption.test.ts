import { describe, test } from 'node:test';
import { succeedsInGuest } from '../lvm/guest.ts';

describe('logical volumes of others', () => {
  test('become volumes and are as before, by one rename', async (t) => {
    t.diagnostic(await succeedsInGuest('adoption-in-guest.mjs'));
  });
});
