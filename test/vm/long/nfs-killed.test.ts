import { describe, test } from 'node:test';
import { succeedsOnNfs } from '../nfs/guest.ts';

describe('a driver of volumes on NFS that is killed', () => {
  test('loses nothing as the home, before and after each step of each operation', async (t) => {
    t.diagnostic(await succeedsOnNfs('killed-in-guest'));
  });

  test('loses and leaves nothing as the node service, before and after each step', async (t) => {
    t.diagnostic(await succeedsOnNfs('node-killed-in-guest'));
  });
});
