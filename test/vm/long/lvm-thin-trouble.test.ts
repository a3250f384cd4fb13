import { describe, test } from 'node:test';
import { succeedsInGuest } from '../lvm/guest.ts';

describe('a thin pool', () => {
  test('in which something was left in the middle goes on, and tells no more than is there', async (t) => {
    t.diagnostic(await succeedsInGuest('thin-trouble-in-guest.mjs'));
  });
});
