import { describe, test } from 'node:test';
import { succeedInGuest } from '../disk-kind/guest.ts';

describe('disks and partitions of others', () => {
  test('become volumes as they are, by one write of a note, and are as before', async (t) => {
    t.diagnostic(await succeedInGuest('adoption-in-guest'));
  });
});
