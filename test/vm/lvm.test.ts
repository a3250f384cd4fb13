import { describe, test } from 'node:test';
import { succeedsInGuest } from './lvm/guest.ts';

describe('pools in a volume group', () => {
  test('take as few commands of LVM as the document says', async (t) => {
    t.diagnostic(await succeedsInGuest('processes-in-guest.mjs'));
  });

  test('and so do pools of thin volumes', async (t) => {
    t.diagnostic(await succeedsInGuest('processes-in-guest.mjs', 'thin'));
  });
});
