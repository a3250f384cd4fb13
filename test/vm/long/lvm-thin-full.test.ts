import { describe, test } from 'node:test';
import { succeedsInGuest } from '../lvm/guest.ts';

describe('a thin pool', () => {
  test('that runs full, of data or of metadata, tells it before, loses nothing, and grows', async (t) => {
    t.diagnostic(await succeedsInGuest('thin-in-guest.mjs'));
  });
});
