import { describe, test } from 'node:test';
import { passed, succeedsInGuest, withMachine } from '../luks/guest.ts';

const places = {
  '/xfs': 'over images that share blocks',
  '/ext4': 'over images that are copied',
  '/dev/vdb': 'over logical volumes',
  '/dev/vdb thin': 'over thin volumes',
} as const;

describe('the contract of pools, with every volume encrypted', () => {
  for (const [place, words] of Object.entries(places)) {
    test(words, async (t) => {
      const filesystem = place === '/ext4' ? 'ext4' : 'xfs';
      await withMachine({ filesystem, memoryMiB: 1536 }, async (vm) => {
        t.diagnostic(passed(await succeedsInGuest(vm, 'contract-in-guest', place)));
      });
    });
  }
});
