import { test } from 'node:test';
import { succeedsBesideOlderLvm } from '../lvm/guest.ts';

test('pools in a volume group, on a node whose LVM is too old for the driver (2.03.11 of Debian 11)', async (t) => {
  t.diagnostic(await succeedsBesideOlderLvm('older-in-guest.mjs'));
});
