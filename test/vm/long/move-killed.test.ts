import { describe, test } from 'node:test';
import { succeedsInGuest } from '../lvm/guest.ts';

describe('snapshots that follow their volume from one thin pool to another', () => {
  for (const part of ['before', 'after', 'cancel']) {
    test(`are whole and there once, wherever their driver is killed (${part})`, async (t) => {
      t.diagnostic(await succeedsInGuest('moves-killed-in-guest.mjs', part));
    });
  }
});
