import { describe, test } from 'node:test';
import { succeedsInGuest } from '../lvm/guest.ts';
import { inUseOperations } from '../lvm/in-use-operations.ts';
import { operations } from '../lvm/operations.ts';

/** Each by itself: with the kills before and after all of its steps it takes minutes. */
const killed = { ...inUseOperations, ...operations };

describe('a driver of thin volumes that is killed', () => {
  for (const operation of Object.keys(killed)) {
    test(`T03: before and after each step: ${operation}`, async (t) => {
      t.diagnostic(await succeedsInGuest('crash-in-guest.mjs', 'thin', `'${operation}'`));
    });
  }
});
