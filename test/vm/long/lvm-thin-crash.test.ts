import { describe, test } from 'node:test';
import { succeedsInGuest } from '../lvm/guest.ts';

describe('a driver of thin volumes that is killed', () => {
  test('loses nothing, before and after each step of each operation', async (t) => {
    t.diagnostic(await succeedsInGuest('crash-in-guest.mjs', 'thin'));
  });
});
