import { describe, test } from 'node:test';
import { succeedBesidePools } from '../disk-kind/guest.ts';

describe('a driver that is killed while a volume moves that is a disk, or becomes one', () => {
  for (const [other, where] of Object.entries({ two: 'from disk to disk', images: 'between a disk and images' })) {
    test(`${where}: loses nothing, whichever step was its last`, async (t) => {
      t.diagnostic(await succeedBesidePools(`move-killed-in-guest ${other}`));
    });
  }
});
