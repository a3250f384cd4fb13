import { describe, test } from 'node:test';
import { succeedsInGuest } from '../lvm/guest.ts';
import { operations } from '../lvm/operations.ts';

/** Each by itself: with the kills before and after all of its steps it takes minutes. */
describe('a driver of a volume group that is killed', () => {
  for (const operation of Object.keys(operations)) {
    test(`T03: before and after each step: ${operation}`, async (t) => {
      t.diagnostic(await succeedsInGuest('crash-in-guest.mjs', `'${operation}'`));
    });
  }
});
