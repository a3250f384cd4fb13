import { describe, test } from 'node:test';
import { succeedsWithBlankDisks } from './lvm/devices-guest.ts';
import { succeedsInGuest } from './lvm/guest.ts';

describe('pools in a volume group', () => {
  test('take as few commands of LVM as the document says', async (t) => {
    t.diagnostic(await succeedsInGuest('processes-in-guest.mjs'));
  });

  test('and so do pools of thin volumes', async (t) => {
    t.diagnostic(await succeedsInGuest('processes-in-guest.mjs', 'thin'));
  });

  test('are made of blank disks, and grow by them; of no disk that holds anything', async (t) => {
    t.diagnostic(
      await succeedsWithBlankDisks(
        "--test-name-pattern='is made of all that are named|grows by blank disks|holds a filesystem'",
      ),
    );
  });
});
