import { describe, test } from 'node:test';
import { succeedBesidePools } from '../disk-kind/guest.ts';

describe('a volume that is a disk, or becomes one', () => {
  test('moves between disks, images and a volume group, encrypted or not', async (t) => {
    t.diagnostic(await succeedBesidePools('move-in-guest'));
  });
});
