import { describe, test } from 'node:test';
import { succeedsWithTarget } from './network-disk/guest.ts';

describe('encrypted volumes on a target of NVMe over TCP', () => {
  test('are made, opened, grown and let go, and no one reads them without their key', async (t) => {
    t.diagnostic(await succeedsWithTarget('nvme', 'encrypted-in-guest'));
  });

  test('are finished by repeated calls, wherever the node service is killed', async (t) => {
    t.diagnostic(await succeedsWithTarget('nvme', 'encrypted-killed-in-guest'));
  });
});
