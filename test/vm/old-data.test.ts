import { test } from 'node:test';
import { ownersInGuest } from './old-data/guest.ts';

const seed = Number(process.env['HOLDFAST_TEST_SEED'] ?? 1);

test("nobody reads what was another one's: a few owners of each kind", async (t) => {
  await ownersInGuest({ lvm: 20, thin: 6, disk: 4 }, seed, (words) => t.diagnostic(words));
});
