import { describe, test } from 'node:test';
import { succeedsOnNfs } from './nfs/guest.ts';

describe('pools on NFS', () => {
  test('keep the contract of pools', async (t) => {
    t.diagnostic(await succeedsOnNfs('pool-in-guest'));
  });
});
