import { test } from 'node:test';
import { succeedInGuest } from '../disk-kind/guest.ts';

test('a disk that was adopted, and that somebody else uses later', async (t) => {
  t.diagnostic(await succeedInGuest('later-in-guest'));
});
