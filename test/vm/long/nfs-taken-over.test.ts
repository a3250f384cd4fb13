import { describe, test } from 'node:test';
import { succeedsOnNfs } from '../nfs/guest.ts';

describe('a pool on NFS', () => {
  test('is taken over by the home on another machine, wherever the machine of the last one was lost', async (t) => {
    t.diagnostic(await succeedsOnNfs('taken-over-in-guest'));
  });
});
