import { describe, test } from 'node:test';
import { succeedsWithPullableDisks } from '../lvm/guest.ts';

describe('commands of LVM are killed', () => {
  for (const sort of ['', 'thin']) {
    test(`in a pool of ${sort || 'linear, striped and mirrored'} volumes`, async (t) => {
      t.diagnostic(await succeedsWithPullableDisks('killed-lvm-in-guest.mjs', sort));
    });
  }
});
