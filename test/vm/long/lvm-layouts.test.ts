import { describe, test } from 'node:test';
import { succeedsWithPullableDisks } from '../lvm/guest.ts';

describe('pools in a volume group', () => {
  test('have volumes that are striped or mirrored', async (t) => {
    t.diagnostic(await succeedsWithPullableDisks('layouts-in-guest.mjs'));
  });

  test('wipe what was deleted as its class says, and mirrors live on with one disk', async (t) => {
    t.diagnostic(await succeedsWithPullableDisks('mirrors-in-guest.mjs'));
  });
});
