import { describe, test } from 'node:test';
import { succeedsWithBlankDisks } from '../lvm/devices-guest.ts';

describe('volume groups of blank disks', () => {
  test('are made, extended, and finished after kill -9 at each step; no disk that holds anything is written to', async (t) => {
    t.diagnostic(await succeedsWithBlankDisks());
  });
});
