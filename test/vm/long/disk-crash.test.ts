import { describe, test } from 'node:test';
import { succeedInGuest } from '../disk-kind/guest.ts';

describe('a driver of a disk that is killed', () => {
  test('loses nothing, before and after each step of each operation', async (t) => {
    t.diagnostic(await succeedInGuest('crash-in-guest'));
  });
});
