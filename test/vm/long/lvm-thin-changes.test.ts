import { describe, test } from 'node:test';
import { succeedsInGuest } from '../lvm/guest.ts';

describe('changed blocks of snapshots in a thin pool', () => {
  test('are all that differs, and keep nobody waiting', async (t) => {
    t.diagnostic(await succeedsInGuest('changes-in-guest.mjs'));
  });
});
