import { test } from 'node:test';
import { succeedsWithPullableDisks } from '../lvm/guest.ts';

test('pools in a volume group, in which somebody works by hand', async (t) => {
  t.diagnostic(await succeedsWithPullableDisks('by-hand-in-guest.mjs'));
});
