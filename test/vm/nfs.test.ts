import { describe, test } from 'node:test';
import { succeedsOnNfs } from './nfs/guest.ts';

describe('pools on NFS', () => {
  test('keep the contract of pools', async (t) => {
    t.diagnostic(await succeedsOnNfs('pool-in-guest'));
  });

  test('say what is wrong with a server that is full, read-only, or has lost a directory', async (t) => {
    t.diagnostic(await succeedsOnNfs('faults-in-guest'));
  });
});
