import { describe, test } from 'node:test';
import { succeedsWithTarget } from './network-disk/guest.ts';

describe('volumes on a target of NVMe over TCP', () => {
  test('are connected, shown, grown and let go', async (t) => {
    t.diagnostic(await succeedsWithTarget('nvme', 'node-in-guest'));
  });

  test('go on while another target is gone, and lose nothing by a restart of their own', async (t) => {
    t.diagnostic(await succeedsWithTarget('nvme', 'gone-in-guest'));
  });

  test('leave nothing, wherever the node service is killed', async (t) => {
    t.diagnostic(await succeedsWithTarget('nvme', 'killed-in-guest'));
  });
});
