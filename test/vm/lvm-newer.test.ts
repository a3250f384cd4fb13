import { describe, test } from 'node:test';
import { succeedsWithNewerLvm } from './lvm/guest.ts';

const mebibyte = 2 ** 20;
/** Of the contract, what asks LVM for most. */
const some = 'CV31 T03|CE03 CE04|CV25 CV27|a deleted volume comes back';

describe('pools in a volume group, with an LVM that says its warnings in another place (2.03.26 and newer)', () => {
  test('lvm 1: a copy of a disk is seen, and neither of the two is used', async (t) => {
    t.diagnostic(await succeedsWithNewerLvm(128 * mebibyte, 'a copy of a disk', 'by-hand-in-guest.mjs'));
  });

  test('keep the contract, thick and thin', async (t) => {
    t.diagnostic(await succeedsWithNewerLvm(4096 * mebibyte, some, 'pool-in-guest.mjs'));
    t.diagnostic(await succeedsWithNewerLvm(4096 * mebibyte, some, 'pool-in-guest.mjs', 'thin'));
  });
});
