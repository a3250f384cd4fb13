import { describe, test } from 'node:test';
import { succeedsOnNfs } from '../nfs/guest.ts';
import { lockGoesOver } from '../nfs/lock-scene.ts';
import { describeServerGone } from '../nfs/server-gone.ts';

describe('pools on nfs-ganesha', () => {
  test('keep the contract of pools', async (t) => {
    t.diagnostic(await succeedsOnNfs('pool-in-guest', 'ganesha'));
  });

  test('have a lock that keeps another client out, and goes to it when its holder is cut off', () =>
    lockGoesOver('ganesha'));
});

describeServerGone('nfs-ganesha', 'ganesha');
