import { describe, test } from 'node:test';
import { passed, succeedsInGuest, withMachine } from './luks/guest.ts';

describe('encrypted disks that PersistentVolumes name, over loop devices', () => {
  test('leave nothing behind at an unstage, and are made for writers alone', async (t) => {
    await withMachine({}, async (vm) => t.diagnostic(passed(await succeedsInGuest(vm, 'named-in-guest', '/xfs'))));
  });
});
